//! `rpcrdma nfs`: a server of NFSv3 and MOUNT over TCP and RDMA, and a client of any such server.

mod config;
mod copy;
mod list;
mod measure;
mod notify;
mod offer;
mod registration;
mod remote;
mod scratch;
mod serve;
#[cfg(target_os = "linux")]
mod served_dirs;
mod signals;

use std::error::Error;

/// The port of NFS over TCP (RFC 1813, section 2.2).
const TCP_PORT: u16 = 2049;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Serve a file system by NFSv3 and MOUNT until SIGTERM or SIGINT. Every user of every host
    /// that can reach the server is trusted: clients choose the users of their calls, from any
    /// port.
    Serve(Box<serve::Serve>),
    /// List a directory of an NFSv3 server.
    Ls(list::List),
    /// Print a file of an NFSv3 server.
    Cat(list::Cat),
    /// Copy a file from or to an NFSv3 server.
    Cp(copy::Copy),
    /// Measure each operation of an NFSv3 server.
    Bench(measure::Bench),
}

impl Options {
    /// Returns true for the subcommand that runs a server.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self.what, Action::Serve(_))
    }

    /// Returns true if the subcommand succeeded.
    pub(crate) fn run(self) -> Result<bool, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let done = runtime.block_on(async {
            match self.what {
                Action::Serve(serve) => serve.run().await.map(|()| true),
                Action::Ls(list) => {
                    let done = list.run().await;
                    list.access.explain(Some(&list.what), done)
                }
                Action::Cat(cat) => {
                    let done = cat.run().await.map(|()| true);
                    cat.access.explain(Some(&cat.file), done)
                }
                Action::Cp(copy) => {
                    let done = copy.run().await.map(|()| true);
                    copy.access.explain(copy.remote().as_ref(), done)
                }
                Action::Bench(bench) => {
                    let done = bench.run().await.map(|()| true);
                    bench.access.explain(Some(&bench.dir), done)
                }
            }
        });
        // The process does not wait for a server that does not drain.
        runtime.shutdown_background();
        done
    }
}
