//! Receives are posted before the peer may send the messages that use them.

use rpcrdma_proto::connection::{Action, BufferDisposition, BufferId};

use crate::calls::warm;
use crate::pair::{NULL, REPLY, exchange};

/// A requester may call again as soon as it gets a reply: the receive is posted by then, in a
/// batch.
// spec: bd-4.3.2-a
#[test]
fn a_receive_is_posted_for_the_next_call_before_the_reply() {
    let (mut client, mut server) = warm();
    let _ = [NULL; 3].map(|call| client.session.call(&call, None).unwrap());
    exchange(&mut client, &mut server);
    let (posted, mut out) = (server.session.posted_receives(), [0; 4096]);
    for call in server.arrived() {
        server.session.reply(call, REPLY, &[]).unwrap();
    }
    assert!(
        server.session.poll_transmit(0, &mut out).is_none(),
        "before they are posted"
    );
    assert!(matches!(
        server.session.poll_action(),
        Some(Action::PostReceives { count: 3, .. })
    ));
    assert_eq!(
        (
            server.session.poll_action(),
            server.session.posted_receives()
        ),
        (None, posted + 3)
    );
    (0..3).for_each(|_| {
        assert!(
            server.session.poll_transmit(0, &mut out).is_some(),
            "nothing is asked for between"
        )
    });
}

/// No message follows a reply before the next call, so its receive is posted with that call.
// spec: bd-4.3.1-b
#[test]
fn receives_for_replies_are_posted_with_the_next_call() {
    let (mut client, mut server) = warm();
    let _ = [NULL; 2].map(|call| client.session.call(&call, None).unwrap());
    exchange(&mut client, &mut server);
    for call in server.arrived() {
        server.session.reply(call, REPLY, &[]).unwrap();
    }
    let (posted, mut out) = (client.session.posted_receives(), [0; 4096]);
    for number in 0..2 {
        let reply = server.send().unwrap();
        assert_eq!(
            client
                .session
                .received(BufferId(1000 + number), &reply.bytes, None),
            BufferDisposition::Kept
        );
    }
    assert!(client.session.is_at_rest() && client.session.posted_receives() == posted - 2);
    client.session.call(&NULL, None).unwrap();
    assert!(
        client.session.poll_transmit(0, &mut out).is_none(),
        "before they are posted"
    );
    assert!(client.session.has_actions(), "that is what it waits for");
    assert!(matches!(
        client.session.poll_action(),
        Some(Action::PostReceives { count: 2, .. })
    ));
    assert!(client.session.poll_transmit(0, &mut out).is_some());
}

/// Actions first, then messages, once: that sends all that can go, however many calls were begun,
/// each with its receive before it.
// spec: bd-4.3.1-b, bd-4.3.2-c
// spec: rfc8166-3.3.1-e
#[test]
fn receives_precede_the_calls_that_need_them() {
    let mut place = [0; 4096];
    for count in [1, 5, 20] {
        let (mut client, _server) = warm();
        for _ in 0..count {
            client.session.call(&NULL, None).unwrap();
        }
        while let Some(action) = client.session.poll_action() {
            assert!(matches!(action, Action::PostReceives { .. }), "{action:?}");
        }
        let mut sent = 0;
        while client.session.poll_transmit(0, &mut place).is_some() {
            assert!(
                client.session.posted_receives() >= client.session.receives(),
                "{sent} went before"
            );
            sent += 1;
        }
        assert_eq!(sent, count);
    }
}

/// The same of operations that were registered: each may have an answer, and takes its credit as it
/// is sent.
#[test]
fn receives_precede_the_operations_that_need_them() {
    let (mut client, _server) = warm();
    let mut place = [0; 4096];
    client.session.register_operation(u32::MAX).unwrap();
    for _ in 0..5 {
        client
            .session
            .send_operation(u32::MAX, true, None, &[])
            .unwrap();
        client.session.call(&NULL, None).unwrap();
    }
    // One for a backward call, and those for what takes no credit.
    let others = 1 + client.session.config().reserved_receives;
    let mut sent = 0;
    loop {
        while client.session.poll_action().is_some() {}
        let posted = client.session.posted_receives();
        if client.session.poll_transmit(0, &mut place).is_none() {
            break;
        }
        sent += 1;
        assert!(posted >= others + sent, "{posted} for {sent} in flight");
    }
    assert_eq!(sent, 10);
}
