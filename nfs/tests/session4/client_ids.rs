//! Several sessions of a client, and the sequence numbers of CREATE_SESSION.

use std::time::Duration;

use oncrpc::{CallOptions, Channel};
use rpcrdma_nfs::nfs4_client::{Nfs4Callbacks, Nfs4Config, Nfs4Error, Nfs4Fault, Nfs4Session};

use super::server::Trick;
use super::{Carrier, World, run};

const OWNER: &str = "several";

impl World {
    async fn session(
        &self,
        verifier: [u8; 8],
        callbacks: &Nfs4Callbacks,
    ) -> Result<Nfs4Session<Channel>, Nfs4Error> {
        let channel = self.nfs.session().stubs().transport().clone();
        let config = Nfs4Config::new(OWNER, verifier);
        let options = CallOptions::DEFAULT.timeout(Duration::from_millis(200));
        Nfs4Session::new(channel, options, &config, callbacks).await
    }
}

/// RFC 8881, sections 18.35.3 and 18.36.4: the number in the result of EXCHANGE_ID is for the first
/// CREATE_SESSION of a client ID alone.
#[test]
fn each_session_of_a_client_is_a_new_one() {
    run(async {
        let world = Carrier::Loopback.world(4).await;
        let others = world.server.sessions();
        let mut sessions = Vec::new();
        for count in 1..=3 {
            let session = world.session([5; 8], &world.callbacks).await.unwrap();
            assert_eq!(world.server.sessions(), others + count);
            sessions.push(session);
        }
        for session in &sessions {
            assert_eq!(session.client_id(), sessions[0].client_id());
            session.renew().await.unwrap();
        }
        // The server keeps the client ID without a session.
        drop(sessions);
        let session = world.session([5; 8], &world.callbacks).await.unwrap();
        assert_eq!(world.server.sessions(), others + 4);
        session.renew().await.unwrap();
    });
}

#[test]
fn sessions_that_are_created_at_once_share_a_client_id() {
    run(async {
        let world = Carrier::Tcp.world(4).await;
        let create = || world.session([5; 8], &world.callbacks);
        let (one, other) = tokio::join!(create(), create());
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_eq!(one.client_id(), other.client_id());
        assert_ne!(one.id(), other.id());
        one.renew().await.unwrap();
        other.renew().await.unwrap();
    });
}

/// The next attempt has the same number, and gets the session whose reply was lost.
#[test]
fn a_session_whose_reply_was_lost_is_not_created_again() {
    run(async {
        let world = Carrier::Loopback.world(4).await;
        for count in 1..=2 {
            let before = world.server.sessions();
            world.server.play(Trick::LoseSession);
            let lost = world.session([5; 8], &world.callbacks).await;
            assert!(matches!(lost, Err(Nfs4Error::Rpc(_))), "{lost:?}");
            let session = world.session([5; 8], &world.callbacks).await.unwrap();
            assert_eq!(world.server.sessions(), before + 1, "{count}");
            session.renew().await.unwrap();
        }
    });
}

/// As after a restart of the process with the same verifier: the next number is unknown, and any
/// other may be that of an existing session.
#[test]
fn sessions_of_other_callbacks_are_not_taken_over() {
    run(async {
        let world = Carrier::Loopback.world(4).await;
        let first = world.session([5; 8], &world.callbacks).await.unwrap();
        let callbacks = Nfs4Callbacks::new();
        let refused = world.session([5; 8], &callbacks).await;
        assert!(
            matches!(refused, Err(Nfs4Error::ClientInUse)),
            "{refused:?}"
        );
        first.renew().await.unwrap();
        let restarted = world.session([6; 8], &callbacks).await.unwrap();
        restarted.renew().await.unwrap();
        assert!(first.renew().await.unwrap_err().is_session_lost());
    });
}

#[test]
fn a_session_that_exists_is_no_new_session() {
    run(async {
        let world = Carrier::Loopback.world(4).await;
        let first = world.session([5; 8], &world.callbacks).await.unwrap();
        world.server.play(Trick::OtherSession(first.id()));
        let again = world.session([5; 8], &world.callbacks).await;
        let fault = match again {
            Err(Nfs4Error::Protocol { fault, .. }) => fault,
            other => panic!("{other:?}"),
        };
        assert_eq!(fault, Nfs4Fault::Session);
        first.renew().await.unwrap();
    });
}
