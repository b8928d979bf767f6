//! Descriptors to wait for.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::TestBed;
use super::fixture::{ConnectedEnds, Host, TestEnd, TestEvent, connected, until};
use crate::provider::{CompletionQueue as _, ConnectionManager as _, Device, Status};

/// Returns true if a descriptor is or becomes readable within a number of milliseconds.
fn is_readable(descriptor: BorrowedFd<'_>, within: u16) -> bool {
    let mut descriptors = [PollFd::new(&descriptor, PollFlags::IN)];
    let most = Timespec {
        tv_sec: i64::from(within / 1000),
        tv_nsec: i64::from(within % 1000) * 1_000_000,
    };
    poll(&mut descriptors, Some(&most)).expect("it can be waited on") > 0
}

/// The timeouts in milliseconds where nothing is expected, and where something is.
const SHORT: u16 = 20;
pub(super) const LONG: u16 = 10_000;

pub(super) fn wakes<D: Device>(end: &TestEnd<D>, within: u16) -> bool {
    is_readable(end.host.completions.descriptor(), within)
}

fn acknowledge<D: Device>(end: &TestEnd<D>) {
    let acknowledged = end.host.completions.acknowledge();
    acknowledged.expect("it is acknowledged");
}

pub(super) fn an_armed_queue_wakes_once<D: Device>(bed: &TestBed<D>) {
    let ConnectedEnds { mut near, mut far } = connected(bed);
    far.receives(8, 1024);
    near.send(b"before it was armed");
    far.message().expect("it arrives");
    assert!(!wakes(&far, SHORT), "nobody has armed it");
    far.host.completions.arm().expect("it is armed");
    assert!(!wakes(&far, SHORT), "nothing has come");
    near.send(b"after");
    assert!(wakes(&far, LONG));
    acknowledge(&far);
    // A device may wake too often, but not without end: siw does so under load, once or twice, and
    // iWARP over TCP until another thread that makes progress has consumed the events.
    let deadline = Instant::now() + Duration::from_millis(LONG.into());
    while wakes(&far, SHORT) {
        acknowledge(&far);
        assert!(Instant::now() < deadline, "acknowledged");
    }
    near.send(b"once more");
    far.message().expect("it arrives");
    far.message().expect("it arrives");
    assert!(!wakes(&far, SHORT), "not armed again");
}

pub(super) fn what_came_before_is_not_told<D: Device>(bed: &TestBed<D>) {
    let ConnectedEnds { mut near, mut far } = connected(bed);
    far.receives(8, 1024);
    let sent = near.send(b"early");
    assert_eq!(near.wait_for(sent), Status::Success);
    // A device that does not acknowledge completes a Send before it has arrived.
    std::thread::sleep(Duration::from_millis(SHORT.into()));
    // It has arrived and was not polled: so poll once more after arming, before waiting.
    far.host.completions.arm().expect("it is armed");
    far.turn();
    assert!(matches!(
        far.events.pop_front(),
        Some(TestEvent::Receive(_, Status::Success, _))
    ));
    assert!(!wakes(&far, SHORT));
    near.send(b"late");
    assert!(wakes(&far, LONG), "the first that comes after it was armed");
}

pub(super) fn no_wake_up_is_lost<D: Device>(bed: &TestBed<D>) {
    let ConnectedEnds { mut near, mut far } = connected(bed);
    for round in 0..2000u32 {
        let mut expected = 1 + round % 2;
        far.receives(expected, 1024);
        far.host.completions.arm().expect("it is armed");
        for _ in 0..expected {
            let number = near.send(&round.to_be_bytes());
            if round % 3 == 0 {
                near.wait_for(number);
            }
        }
        // Like a driver: poll, wait, poll again.
        while expected > 0 {
            let before = far.events.len();
            far.turn();
            expected -= (far.events.len() - before) as u32;
            if expected > 0 {
                assert!(wakes(&far, LONG), "round {round}");
                far.host
                    .completions
                    .acknowledge()
                    .expect("it is acknowledged");
                far.host.completions.arm().expect("it is armed");
            }
        }
        while near.endpoint.in_flight() > 0 {
            near.turn();
        }
        far.host
            .completions
            .acknowledge()
            .expect("it is acknowledged");
    }
}

pub(super) fn a_manager_wakes<D: Device>(bed: &TestBed<D>) {
    let (mut near, mut far) = (Host::new(&bed.near, 64), Host::new(&bed.far, 64));
    let to = far.manager.listen(bed.address).expect("it listens");
    assert!(
        !is_readable(far.manager.descriptor(), SHORT)
            && !is_readable(near.manager.descriptor(), SHORT)
    );
    let _pair = near.connect(to, &[]).expect("it begins");
    until("the far end to be woken", || {
        near.advance();
        is_readable(far.manager.descriptor(), 0).then_some(())
    });
    let (request, _) = far.requested_by(&mut near);
    assert!(far.poll().is_none());
    assert!(!is_readable(far.manager.descriptor(), SHORT), "all is told");
    far.manager.reject(request, &[]);
    assert!(is_readable(near.manager.descriptor(), LONG));
    near.event();
    assert!(near.poll().is_none() && !is_readable(near.manager.descriptor(), SHORT));
}
