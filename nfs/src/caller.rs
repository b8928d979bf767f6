//! The user who makes a call, and the user as whom the server executes it.
//!
//! This module decides who is squashed, by the settings that `Export::caller` passes, and rejects
//! calls without AUTH_SYS credentials. `service` and `mount` derive a [`Caller`] for each call
//! before they call the file system. A file system trusts the `Caller` without a further check:
//! `memory` grants user 0 every access, and `host` gives a thread the rights of the user.

use oncrpc::protocol::AuthStat;
use oncrpc::{AuthSys, Credentials, RpcError};

/// The user as whom the server executes a call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
    /// Further groups.
    pub gids: Vec<u32>,
}

/// Which callers are served as the anonymous user.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Squash {
    /// No caller.
    None,
    /// User 0. Group 0 becomes the anonymous group for every user.
    #[default]
    Root,
    /// Every caller.
    All,
}

/// The user and group that replace squashed ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anonymous {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Caller {
    /// Returns true for user 0.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Returns true if the user is in a group.
    #[must_use]
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.gids.contains(&gid)
    }

    /// Returns the user as whom the server executes a call.
    ///
    /// # Errors
    /// Returns AUTH_TOOWEAK if the call has no AUTH_SYS credentials (RFC 1813, section 2.1).
    pub(crate) fn new(
        credentials: &Credentials,
        squash: Squash,
        anonymous: Anonymous,
    ) -> Result<Self, RpcError> {
        let user = user(credentials)?;
        Ok(match squash {
            Squash::None => Self::from(user),
            Squash::Root => Self::from(user).without_root(anonymous),
            Squash::All => Self::from(anonymous),
        })
    }

    fn without_root(self, anonymous: Anonymous) -> Self {
        if self.is_root() {
            return Self::from(anonymous);
        }
        let group = |gid| if gid == 0 { anonymous.gid } else { gid };
        Self {
            gid: group(self.gid),
            gids: self.gids.into_iter().map(group).collect(),
            ..self
        }
    }
}

/// Returns the user who makes a call.
///
/// # Errors
/// Returns AUTH_TOOWEAK if the call has no AUTH_SYS credentials (RFC 1813, section 2.1).
pub(crate) fn user(credentials: &Credentials) -> Result<&AuthSys, RpcError> {
    match credentials {
        Credentials::Sys(user) => Ok(user),
        _ => Err(RpcError::Auth(AuthStat::AuthTooweak)),
    }
}

impl From<&AuthSys> for Caller {
    fn from(user: &AuthSys) -> Self {
        Self {
            uid: user.uid,
            gid: user.gid,
            gids: user.gids.clone(),
        }
    }
}

impl From<Anonymous> for Caller {
    fn from(anonymous: Anonymous) -> Self {
        Self {
            uid: anonymous.uid,
            gid: anonymous.gid,
            gids: Vec::new(),
        }
    }
}
