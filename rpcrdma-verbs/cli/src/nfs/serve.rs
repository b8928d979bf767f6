//! `rpcrdma nfs serve`: serves exports over TCP and RDMA until a signal arrives.
//!
//! The order of `serve` is a contract with service managers: signals are caught first, the
//! addresses are printed and READY=1 is sent when the server listens, and entries of rpcbind are
//! removed before it drains. TCP is the first address of the server, on which `registration` and
//! `announce` rely. A reload applies all settings of the file or none; it does not change addresses
//! and devices.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args as _};
use oncrpc::{ReplyCache, ServerControl};
use rpcrdma_nfs::{Export, ExportTable, FileSystem, MemoryFileSystem, router};
use rpcrdma_verbs::provider::Device as _;
use rpcrdma_verbs::provider::any::AnyDevice;
use rpcrdma_verbs::{RunningServers, ServerBuilder, ServerConfig};
use serde_json::json;

use super::TCP_PORT;
use super::config::NfsConfig;
use super::notify::notify;
use super::offer::Offer;
use super::registration::Registration;
use super::signals::{SignalAction, Signals};
use crate::device_source::{self, Locality, traffic_class};
use crate::listen_address::ListenAddress;
use crate::missing_equals::MissingEquals;
use crate::output::{OutputError, UsageError, outln, print_event};
use crate::serve::{GRACE, PORT};
use crate::units::time;

/// The label of the server in metrics.
#[cfg(feature = "metrics")]
const METRICS_NAME: &str = "nfs";

#[derive(clap::Args)]
#[command(group = ArgGroup::new("file_system").args(["dir", "memory", "config"]).required(true)
    .multiple(true))]
pub(super) struct Serve {
    #[command(flatten)]
    offer: Offer,
    /// File with exports and their settings, and limits, in TOML. SIGHUP reloads it. With a
    /// directory or --memory it has only limits.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the file of --config, and exit.
    #[arg(long, requires = "config")]
    check_config: bool,
    /// Address for NFS and MOUNT over TCP; the default port is 2049.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0")]
    tcp: ListenAddress,
    /// Also serve NFS over RDMA at this address (default 0.0.0.0, port 20049).
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "0.0.0.0",
        require_equals = true)]
    rdma: Option<ListenAddress>,
    /// RDMA device of this host for `--rdma`, as listed by `rpcrdma devices`. The default is iWARP
    /// over TCP, which needs none.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Traffic class of RDMA connections: the DSCP times four, as in RDMA_OPTION_ID_TOS.
    #[arg(long, visible_alias = "tos", value_name = "CLASS", value_parser = traffic_class)]
    traffic_class: Option<u8>,
    /// Threads that serve the connections of each address [default: one over RDMA; over TCP the
    /// thread of the command].
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    /// Maximum time for which a thread polls an RDMA device without work before it sleeps, such as
    /// 50us, which is the default. 0 turns it off.
    #[arg(long, value_name = "TIME", value_parser = time)]
    spin: Option<Duration>,
    /// Path that clients mount (default /).
    #[arg(long, value_name = "PATH", value_parser = path)]
    export: Option<String>,
    /// Register the services with the rpcbind of this host, and remove them at the end. The server
    /// starts even without rpcbind.
    #[arg(long)]
    rpcbind: bool,
    /// Print a line of JSON for each event.
    #[arg(long)]
    json: bool,
    #[cfg(feature = "metrics")]
    #[command(flatten)]
    metrics: crate::exporter::Options,
}

/// Creates the exports of a configuration: all of them or none.
type MakeExports<'a, F> = dyn FnMut(&NfsConfig) -> Result<Vec<Export<F>>, Box<dyn Error>> + 'a;

impl Serve {
    pub(super) async fn run(self) -> Result<(), Box<dyn Error>> {
        if self.offer.dir.is_none() && !self.offer.memory {
            self.offer.has_no_settings(self.export.as_deref())?;
        }
        let config = self.config.as_deref().map(NfsConfig::read).transpose()?;
        if self.check_config {
            return self.check(config);
        }
        let path = self.export.as_deref().unwrap_or("/");
        match (&self.offer.dir, self.offer.memory) {
            #[cfg(target_os = "linux")]
            (Some(dir), _) => {
                let host = self
                    .offer
                    .open(dir)
                    .map_err(|error| with_hint(dir, error))?;
                let export = self.offer.export(host).path(path);
                self.serve(config, &mut one_export(export)).await
            }
            #[cfg(target_os = "linux")]
            (None, false) => {
                let mut dirs = self.offer.dirs()?;
                self.serve(config, &mut |config| dirs.exports(&config.exports))
                    .await
            }
            #[cfg(not(target_os = "linux"))]
            (Some(_), _) | (None, false) => Err("a directory can be served on Linux alone".into()),
            (None, true) => {
                // As in `/tmp`, every user may create files.
                let memory = MemoryFileSystem::new(self.offer.size).root_owner(0, 0, 0o1777);
                let export = self.offer.export(memory).path(path);
                self.serve(config, &mut one_export(export)).await
            }
        }
    }

    /// Checks whether the settings could be served, without opening or creating anything.
    fn check(&self, config: Option<NfsConfig>) -> Result<(), Box<dyn Error>> {
        let exports = config.map(|config| config.exports).unwrap_or_default();
        let is_given = self.offer.dir.is_some() || self.offer.memory;
        check_exports(&exports, is_given)?;
        for export in &exports {
            let listed = std::fs::read_dir(&export.dir).map(drop);
            listed.map_err(|error| format!("{}: {error}", export.dir.display()))?;
        }
        let count = exports.len();
        Ok(print_event(
            self.json,
            format_args!("the configuration is valid: exports={count}"),
            || json!({ "event": "valid", "exports": count }),
        )?)
    }

    /// Serves exports until a signal arrives.
    async fn serve<F: FileSystem>(
        &self,
        config: Option<NfsConfig>,
        make: &mut MakeExports<'_, F>,
    ) -> Result<(), Box<dyn Error>> {
        // This comes before the services start, so that no signal is missed.
        let mut signals = Signals::new(self.config.is_some())?;
        let config = config.unwrap_or(NfsConfig {
            limits: oncrpc::ServerLimits::new(),
            exports: Vec::new(),
        });
        let exports = ExportTable::new(make(&config)?);
        let control = ServerControl::new(config.limits);
        let (server, device) = self.start(&exports, &control).await?;
        let registration = match self.rpcbind {
            true => Some(Registration::new(server.local_addrs()).await),
            false => None,
        };
        let served = async {
            self.announce(&exports, server.local_addrs(), device.as_ref())?;
            notify("READY=1");
            while signals.next().await == SignalAction::Reload {
                self.report_reload(self.reload(&exports, &control, make))?;
            }
            notify("STOPPING=1");
            self.print_state("draining")
        };
        let served = served.await;
        let drain = async {
            if let Some(registration) = registration {
                registration.end().await;
            }
            // After an error, the calls in flight get no replies.
            served?;
            Ok::<_, Box<dyn Error>>(server.drain().await?)
        };
        tokio::select! {
            drained = drain => drained?,
            () = tokio::time::sleep(GRACE) => return Err("some calls got no reply in time".into()),
            () = signals.end() => return Err("stopped before all calls had replies".into()),
        }
        Ok(self.print_state("drained")?)
    }

    /// Prints a state of the server.
    fn print_state(&self, state: &str) -> Result<(), OutputError> {
        print_event(
            self.json,
            format_args!("{state}"),
            || json!({ "event": state }),
        )
    }

    /// Prints the number of exports after a reload, or why it failed.
    fn report_reload(&self, reloaded: Result<usize, Box<dyn Error>>) -> Result<(), OutputError> {
        match reloaded {
            Ok(count) => print_event(
                self.json,
                format_args!("reloaded exports={count}"),
                || json!({ "event": "reloaded", "exports": count }),
            ),
            Err(error) => {
                eprintln!("rpcrdma: the earlier settings stay: {error}");
                Ok(())
            }
        }
    }

    /// Applies the settings of the file, all or none, and returns the number of exports.
    fn reload<F: FileSystem>(
        &self,
        exports: &ExportTable<F>,
        control: &ServerControl,
        make: &mut MakeExports<'_, F>,
    ) -> Result<usize, Box<dyn Error>> {
        let path = self.config.as_deref().unwrap_or(Path::new(""));
        let config = NfsConfig::read(path)?;
        let new = make(&config)?;
        let count = new.len();
        exports.replace(new);
        control.set_limits(config.limits);
        Ok(count)
    }

    /// Starts to listen. Returns the servers, and the device of RDMA.
    async fn start<F: FileSystem>(
        &self,
        exports: &ExportTable<F>,
        control: &ServerControl,
    ) -> Result<(RunningServers, Option<AnyDevice>), Box<dyn Error>> {
        let (cache, table) = (ReplyCache::default(), exports.clone());
        let mut rdma_config = ServerConfig::new();
        if let Some(longest) = self.spin {
            rdma_config = rdma_config.spin(longest);
        }
        #[cfg(feature = "metrics")]
        {
            let (control, cache) = (control.clone(), cache.clone());
            let offered = self.metrics.start(move || {
                control.publish_metrics(METRICS_NAME);
                cache.publish_metrics(METRICS_NAME);
            })?;
            if let Some(address) = offered {
                tracing::info!(%address, "metrics");
                rdma_config = rdma_config.publish_metrics(METRICS_NAME);
            }
        }
        let mut server = ServerBuilder::new(move || router(table.clone()))
            .control(control)
            .reply_cache(cache)
            .rdma_config(rdma_config)
            .tcp(self.tcp.or(Ipv4Addr::UNSPECIFIED, TCP_PORT));
        if let Some(threads) = self.threads {
            server = server.threads(threads);
        }
        let mut used = None;
        if self.rdma.is_some() || self.device.is_some() {
            let source = device_source::Options::of_host(self.device.clone());
            let device = source.source(Locality::Network)?.open()?;
            if let Some(class) = self.traffic_class {
                device.set_traffic_class(class);
            }
            let any = Ipv4Addr::UNSPECIFIED;
            let rdma = self.rdma.map(|rdma| rdma.or(any, PORT));
            server = server.rdma(&device, rdma.unwrap_or_else(|| (any, PORT).into()));
            used = Some(device);
        }
        Ok((server.start().await?, used))
    }

    /// Prints the addresses of the services. The first line is for programs.
    fn announce<F: FileSystem>(
        &self,
        exports: &ExportTable<F>,
        addresses: &[SocketAddr],
        device: Option<&AnyDevice>,
    ) -> Result<(), OutputError> {
        let [tcp, rdma @ ..] = addresses else {
            return Ok(());
        };
        let rdma = rdma.first();
        let device = device.map(|device| &*device.capabilities().name);
        let exports = exports.exports();
        let paths = exports.iter().map(|export| export.settings().path.as_str());
        let paths: Vec<_> = paths.collect();
        if self.json {
            outln!(
                "{}",
                json!({ "event": "listening", "tcp": tcp, "rdma": rdma, "device": device,
                    "exports": paths })
            );
            return Ok(());
        }
        let device = device.zip(rdma);
        let device = device.map(|(device, rdma)| format!(" rdma={rdma} device={device}"));
        let device = device.unwrap_or_default();
        let all: String = paths.iter().map(|path| format!(" export={path}")).collect();
        outln!("listening tcp={tcp}{device}{all}");
        outln!("mount on Linux, as root, with the address of this host for ADDR:");
        let first = paths.first().copied().unwrap_or("/");
        let mount = |proto, port| {
            outln!(
                "    mount -t nfs -o vers=3,proto={proto},port={port},\
                 mountproto=tcp,mountport={},nolock ADDR:{first} /mnt",
                tcp.port(),
            );
            Ok::<(), OutputError>(())
        };
        mount("tcp", tcp.port())?;
        if let Some(rdma) = rdma {
            mount("rdma", rdma.port())?;
        }
        Ok(())
    }
}

/// Adds a hint to the error of a directory, if it is the value of an option that lacks its `=`.
#[cfg(target_os = "linux")]
fn with_hint(dir: &Path, error: Box<dyn Error>) -> Box<dyn Error> {
    let command = Serve::augment_args(clap::Command::new("serve"));
    match MissingEquals::find(&command, std::env::args_os()) {
        Some(hint) if dir == Path::new(&hint.value) => format!("{error}; {hint}").into(),
        _ => error,
    }
}

/// Checks that exports are set either in the file or in the arguments.
fn check_exports(exports: &[super::config::DirExport], is_given: bool) -> Result<(), UsageError> {
    let wrong = match (exports.is_empty(), is_given) {
        (true, false) => "there is no export in the configuration, and no directory",
        (false, true) => "there is a directory or --memory, and the configuration has exports",
        _ => return Ok(()),
    };
    Err(UsageError(wrong.to_owned()))
}

/// Returns the export of the arguments. The file sets only limits in this case.
fn one_export<F: FileSystem>(
    export: Export<F>,
) -> impl FnMut(&NfsConfig) -> Result<Vec<Export<F>>, Box<dyn Error>> {
    move |config| {
        check_exports(&config.exports, true)?;
        Ok(vec![export.clone()])
    }
}

/// Parses the path of an export.
fn path(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        return Ok(text.to_owned());
    }
    Err(format!("{text} is not an absolute path, like / or /export"))
}
