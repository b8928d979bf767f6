//! The signals of the subcommands that clean up before they end.
//!
//! From the creation of `Signals` on, a signal does not end the process by itself, even after the
//! value is dropped: the subcommand must wait for signals until its end. `serve` reads SIGHUP as a
//! reload if it has a configuration file.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The action that a signal requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalAction {
    End,
    Reload,
}

/// SIGTERM, SIGINT, and SIGHUP if there is a file to reload.
pub(super) struct Signals {
    ends: [Signal; 2],
    hangup: Option<Signal>,
}

impl Signals {
    pub(super) fn new(reloads: bool) -> io::Result<Self> {
        let ends = [
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        ];
        let hangup = reloads.then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self { ends, hangup })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> SignalAction {
        let [terminate, interrupt] = &mut self.ends;
        let hangup = &mut self.hangup;
        let reload = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => SignalAction::End,
            _ = interrupt.recv() => SignalAction::End,
            _ = reload => SignalAction::Reload,
        }
    }

    /// Waits for the next signal that ends the command.
    pub(super) async fn end(&mut self) {
        while self.next().await != SignalAction::End {}
    }
}
