//! `xdrgen lsp`: a server of the Language Server Protocol (LSP 3.17) on standard input and output.
//!
//! An editor sends the text of open documents and each change of it. The server answers with the
//! diagnostics of `xdrgen check`, hover texts, definitions, quick fixes and formatted text.
//! [`server::Server`] has no I/O; this module connects it with the editor. A capability in
//! `initialize_result` needs its method in `server`, and `lines` relies on the encoding UTF-16.

mod answers;
mod buffers;
mod lines;
mod params;
mod project;
mod server;
mod symbols;
#[cfg(test)]
mod tests;
mod uri;

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use lsp_server::{Connection, ErrorCode, Message, Notification, ProtocolError, Request, Response};
use serde_json::{Value, json};

use crate::CommandError;
use crate::args::LspArgs;
use server::{RequestError, Server};

/// The time to wait for further changes before the documents are checked: an editor sends the
/// changes of one command as several messages.
const GATHER: Duration = Duration::from_millis(5);

pub(crate) fn run(arguments: LspArgs) -> Result<ExitCode, CommandError> {
    project::settings(Path::new("a.x"), &arguments)?;
    let (connection, threads) = Connection::stdio();
    let served = serve(&connection, Server::new(arguments));
    // The writer thread ends when the connection is dropped.
    drop(connection);
    let joined = threads.join();
    served
        .map_err(|error| CommandError::Usage(format!("the editor breaks the protocol: {error}")))?;
    match joined {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let message = format!("the editor's message can't be read: {error}");
            Err(CommandError::Usage(message))
        }
        joined => {
            joined?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Serves an editor until it sends `exit` or closes its end.
fn serve(connection: &Connection, mut server: Server) -> Result<(), ProtocolError> {
    let (id, _) = match connection.initialize_start() {
        Err(error) if error.channel_is_disconnected() => return Ok(()),
        started => started?,
    };
    connection.initialize_finish(id, initialize_result())?;
    loop {
        let message = if server.is_stale() {
            connection.receiver.recv_timeout(GATHER).ok()
        } else {
            match connection.receiver.recv() {
                Ok(message) => Some(message),
                Err(_) => return Ok(()),
            }
        };
        let sent = match message {
            None => send_all(connection, server.refresh()),
            Some(Message::Notification(exit)) if exit.method == "exit" => return Ok(()),
            Some(Message::Notification(notification)) => {
                server.notification(&notification.method, notification.params);
                true
            }
            Some(Message::Request(request)) if connection.handle_shutdown(&request)? => {
                return Ok(());
            }
            Some(Message::Request(request)) => {
                let response = respond(&mut server, request);
                connection.sender.send(response.into()).is_ok()
            }
            Some(Message::Response(_)) => true,
        };
        if !sent {
            return Ok(());
        }
    }
}

/// Sends notifications. Returns false if the editor has closed its end.
fn send_all(connection: &Connection, notifications: Vec<(&'static str, Value)>) -> bool {
    notifications.into_iter().all(|(method, params)| {
        let notification = Notification {
            method: method.to_owned(),
            params,
        };
        connection.sender.send(notification.into()).is_ok()
    })
}

fn respond(server: &mut Server, request: Request) -> Response {
    match server.request(&request.method, request.params) {
        Ok(result) => Response::new_ok(request.id, result),
        Err(RequestError::UnknownMethod) => {
            let message = format!("the server has no method `{}`", request.method);
            Response::new_err(request.id, ErrorCode::MethodNotFound as i32, message)
        }
        Err(RequestError::InvalidParams(message)) => {
            Response::new_err(request.id, ErrorCode::InvalidParams as i32, message)
        }
    }
}

/// Returns the capabilities of the server. Positions count UTF-16 code units, which every editor
/// supports.
fn initialize_result() -> Value {
    json!({
        "capabilities": {
            "positionEncoding": "utf-16",
            "textDocumentSync": { "openClose": true, "change": 2, "save": true },
            "hoverProvider": true,
            "definitionProvider": true,
            "documentSymbolProvider": true,
            "documentFormattingProvider": true,
            "codeActionProvider": { "codeActionKinds": ["quickfix"] },
        },
        "serverInfo": { "name": "xdrgen", "version": env!("CARGO_PKG_VERSION") },
    })
}
