//! Credentials: the identity of the caller (RFC 5531, section 8).
//!
//! A handler gets the identity that the client claims: [`Credentials::decode`] checks the format
//! alone. Flavors that check an identity are in `client_security` and `server_security`.
//! [`Credentials::None`] is also the encoding of an empty verifier for `request` and
//! `server_security`.

use xdrgen_runtime::{Array, Decode, Encode, Error};

use crate::protocol::{AuthFlavor, AuthStat, AuthsysParms, OpaqueAuth};

/// The identity of a caller.
///
/// ```
/// use oncrpc::{AuthSys, Credentials};
///
/// let user = AuthSys { uid: 1000, gid: 100, ..AuthSys::new("client-7") };
/// let credentials = Credentials::from(user);
/// assert!(matches!(credentials, Credentials::Sys(user) if user.uid == 1000));
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum Credentials {
    /// No identity (AUTH_NONE; RFC 5531, section 10.1).
    #[default]
    None,
    /// A user of a machine (AUTH_SYS; RFC 5531, appendix A). The server must trust the client.
    Sys(AuthSys),
    /// Another flavor.
    Other(OtherCredentials),
}

/// A user of a machine, with its groups (RFC 5531, appendix A).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AuthSys {
    /// Any number that the caller's machine chooses.
    pub stamp: u32,
    /// The name of the caller's machine: at most 255 bytes.
    pub machine: String,
    /// The user.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
    /// Further groups: at most 16.
    pub gids: Vec<u32>,
}

/// Credentials of a flavor that this crate does not implement, as received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OtherCredentials {
    /// The flavor's number.
    pub flavor: u32,
    /// The body: at most 400 bytes.
    pub body: Vec<u8>,
}

impl AuthSys {
    /// Returns the user 0 of a machine, without further groups.
    #[must_use]
    pub fn new(machine: impl Into<String>) -> Self {
        Self {
            machine: machine.into(),
            ..Self::default()
        }
    }
}

impl From<AuthSys> for Credentials {
    fn from(user: AuthSys) -> Self {
        Self::Sys(user)
    }
}

/// The maximum length in bytes of the body of credentials (RFC 5531, section 8.2).
const MAX_BODY: usize = 400;

impl Credentials {
    /// Returns the number of the flavor.
    #[must_use]
    pub fn flavor(&self) -> u32 {
        match self {
            Self::None => flavor(AuthFlavor::AuthNone),
            Self::Sys(_) => flavor(AuthFlavor::AuthSys),
            Self::Other(other) => other.flavor,
        }
    }

    /// Appends the credentials to a message.
    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        // The common case, of all verifiers and most credentials, without the encoder: it saves 3 %
        // of a call's instructions.
        if matches!(self, Self::None) {
            out.extend_from_slice(&[0; 8]);
            return Ok(());
        }
        self.encode_any(out)
    }

    fn encode_any(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        let mut parms = [0; MAX_BODY];
        let body = match self {
            Self::None => &[][..],
            Self::Sys(user) => {
                let len = user.encode(&mut parms)?;
                parms.get(..len).unwrap_or_default()
            }
            Self::Other(other) => &other.body,
        };
        let body = body
            .try_into()
            .map_err(|_| Error::new(xdrgen_runtime::ErrorKind::TooLong, 0))?;
        let auth = OpaqueAuth {
            flavor: self.flavor(),
            body,
        };
        let mut bytes = [0; 8 + MAX_BODY];
        let len = auth.encode_to_slice(&mut bytes)?;
        out.extend_from_slice(bytes.get(..len).unwrap_or_default());
        Ok(())
    }

    /// Reads the credentials of a call.
    ///
    /// # Errors
    /// Returns AUTH_BADCRED if the body is not what the flavor prescribes.
    pub(crate) fn decode(auth: &OpaqueAuth<'_>) -> Result<Self, AuthStat> {
        let body = auth.body.as_bytes();
        if auth.flavor == flavor(AuthFlavor::AuthNone) {
            return Ok(Self::None);
        }
        if auth.flavor == flavor(AuthFlavor::AuthSys) {
            let parms = AuthsysParms::from_bytes(body).map_err(|_| AuthStat::AuthBadcred)?;
            return Ok(Self::Sys(AuthSys {
                stamp: parms.stamp,
                machine: String::from_utf8_lossy(parms.machinename.as_bytes()).into_owned(),
                uid: parms.uid,
                gid: parms.gid,
                gids: parms.gids.iter().collect(),
            }));
        }
        Ok(Self::Other(OtherCredentials {
            flavor: auth.flavor,
            body: body.to_vec(),
        }))
    }
}

impl AuthSys {
    fn encode(&self, body: &mut [u8]) -> Result<usize, Error> {
        let too_long = |_| Error::new(xdrgen_runtime::ErrorKind::TooLong, 0);
        let parms = AuthsysParms {
            stamp: self.stamp,
            machinename: self.machine.as_str().try_into().map_err(too_long)?,
            uid: self.uid,
            gid: self.gid,
            gids: Array::new(&self.gids).map_err(too_long)?,
        };
        parms.encode_to_slice(body)
    }
}

fn flavor(flavor: AuthFlavor) -> u32 {
    flavor.value().cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_credentials_are_those_of_the_generated_types() {
        let (mut fast, mut generated) = (Vec::new(), Vec::new());
        Credentials::None.encode(&mut fast).unwrap();
        Credentials::None.encode_any(&mut generated).unwrap();
        assert_eq!(fast, generated);
    }
}
