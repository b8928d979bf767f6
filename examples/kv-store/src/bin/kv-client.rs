//! The client of the key-value store.

use std::error::Error;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use kv_store::store::{PutArgs, Status, owned, store::v1::Client};
use oncrpc::xdr::SharedBytes;
use oncrpc::{CallOptions, Channel, Resend, tcp};
use rpcrdma_verbs::ClientConfig;
use rpcrdma_verbs::provider::Device as _;
use rpcrdma_verbs::provider::any::AnyDevice;

/// Get, put and delete values of a key-value store.
#[derive(Parser)]
struct Options {
    /// How to reach the server.
    #[arg(long, default_value = "rdma")]
    transport: Transport,
    /// RDMA device; `iwarp` needs none.
    #[arg(long, default_value = "iwarp")]
    device: String,
    /// Server, by name or by address.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:20049")]
    server: String,
    /// Seconds for the call.
    #[arg(long, default_value_t = 30)]
    timeout: u64,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, ValueEnum)]
enum Transport {
    Rdma,
    Tcp,
}

#[derive(Subcommand)]
enum Command {
    /// Print the value of a key.
    Get { key: String },
    /// Store standard input under a key.
    Put { key: String },
    /// Delete a key and its value.
    Delete { key: String },
}

#[tokio::main]
async fn main() -> ExitCode {
    let error = match run(Options::parse()).await {
        Ok(Status::Ok) => return ExitCode::SUCCESS,
        Ok(Status::NotFound) => "no such key".to_owned(),
        Ok(Status::Full) => "the store is full".to_owned(),
        Err(error) => error.to_string(),
    };
    eprintln!("{error}");
    ExitCode::FAILURE
}

/// Executes the command, and returns the status of its result.
async fn run(options: Options) -> Result<Status, Box<dyn Error>> {
    let channel = connect(&options).await?;
    // The server keeps its replies for two minutes. Within this time a call whose connection is
    // lost may be retransmitted, and is executed only once.
    let cache_lifetime = Duration::from_secs(100);
    let call = CallOptions::DEFAULT
        .resend(Resend::Always { cache_lifetime })
        .timeout(Duration::from_secs(options.timeout));
    let store = Client::new(channel).with_options(call);
    Ok(match options.command {
        Command::Get { key } => match store.get(&key.as_str().try_into()?).await? {
            owned::GetRes::Ok(ok) => {
                std::io::stdout().write_all(&ok.value)?;
                Status::Ok
            }
            owned::GetRes::Default(status) => status,
        },
        Command::Put { key } => {
            let mut value = Vec::new();
            std::io::stdin().read_to_end(&mut value)?;
            let args = PutArgs {
                key: key.as_str().try_into()?,
                value: SharedBytes::from(value).into(),
            };
            store.put(&args).await?
        }
        Command::Delete { key } => store.delete(&key.as_str().try_into()?).await?,
    })
}

async fn connect(options: &Options) -> Result<Channel, Box<dyn Error>> {
    Ok(match options.transport {
        Transport::Tcp => tcp::connect(&options.server).await?,
        Transport::Rdma => {
            let device = AnyDevice::open(&options.device)?;
            // Standard output has the value.
            eprintln!("over RDMA on {}", device.capabilities().name);
            let config = ClientConfig::new();
            rpcrdma_verbs::connect(&device, options.server.as_str(), config)?
        }
    })
}
