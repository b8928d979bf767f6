//! The hint for the value of an option that follows it without `=`.
//!
//! An option whose value may be left out takes it only after `=`. Without `=` the value becomes
//! another argument, and the error is about that one.

use std::ffi::OsString;
use std::fmt;

use clap::Command;

/// An option, and the word after it.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct MissingEquals {
    option: String,
    pub(crate) value: String,
}

impl MissingEquals {
    /// Finds an option that requires `=` before a word that may be its value: neither an option nor
    /// a path.
    pub(crate) fn find(
        command: &Command,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Option<Self> {
        let (mut command, mut before) = (command, None);
        for argument in arguments {
            let word = argument.to_string_lossy();
            if let Some(option) = before.take()
                && !word.starts_with('-')
                && !word.contains('/')
            {
                let value = word.into_owned();
                return Some(Self { option, value });
            }
            if let Some(subcommand) = command.find_subcommand(&*word) {
                command = subcommand;
            }
            before = requires_equals(command, &word).then(|| word.into_owned());
        }
        None
    }
}

/// Returns true if the word is an option of this command that takes a value only after `=`.
fn requires_equals(command: &Command, word: &str) -> bool {
    let Some(name) = word.strip_prefix("--") else {
        return false;
    };
    let mut options = command.get_arguments();
    options.any(|option| option.is_require_equals_set() && option.get_long() == Some(name))
}

impl fmt::Display for MissingEquals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { option, value } = self;
        write!(f, "{option} takes a value only after `=`: {option}={value}")
    }
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn found(arguments: &[&str]) -> Option<String> {
        let metrics = Arg::new("metrics").long("metrics").num_args(0..=1);
        let bind = Arg::new("bind").long("bind").num_args(1);
        let serve = Command::new("serve").args([metrics.require_equals(true), bind]);
        let command = Command::new("rpcrdma").subcommand(serve);
        let arguments = ["rpcrdma"].iter().chain(arguments).map(OsString::from);
        MissingEquals::find(&command, arguments).map(|found| found.to_string())
    }

    #[test]
    fn the_value_of_an_option_that_requires_equals_is_found() {
        let hint = "--metrics takes a value only after `=`: --metrics=7";
        let of_serve = ["serve", "--bind", "8", "--metrics", "7"];
        assert_eq!(found(&of_serve).as_deref(), Some(hint));
        for arguments in [
            &["serve", "--bind", "7"][..],
            &["serve", "--metrics"],
            &["serve", "--metrics=7", "8"],
            &["serve", "--metrics", "--bind", "7"],
            &["serve", "--metrics", "/srv"],
            &["--metrics", "7"],
        ] {
            assert_eq!(found(arguments), None, "{arguments:?}");
        }
    }
}
