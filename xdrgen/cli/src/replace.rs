//! Replaces files atomically.

use std::fs;
use std::io;

use crate::CommandError;

/// Replaces the content `old` of a file. Fails if the file has changed since it was read.
pub(crate) fn file(name: &str, old: &str, new: &str) -> Result<(), CommandError> {
    let fault = |error: io::Error| CommandError::Usage(format!("{name} can't be changed: {error}"));
    // Replace the target of a symbolic link, not the link.
    let path = fs::canonicalize(name).map_err(fault)?;
    if fs::read(&path).map_err(fault)? != old.as_bytes() {
        let why = "it is not plain UTF-8, or has changed since it was read";
        return Err(fault(io::Error::other(why)));
    }
    let mut beside = path.clone().into_os_string();
    beside.push(format!(".{}.new", std::process::id()));
    let written = fs::write(&beside, new)
        .and_then(|()| fs::set_permissions(&beside, fs::metadata(&path)?.permissions()))
        .and_then(|()| fs::rename(&beside, &path));
    written.map_err(|error| {
        // Nobody needs the temporary file.
        let _ = fs::remove_file(&beside);
        fault(error)
    })
}
