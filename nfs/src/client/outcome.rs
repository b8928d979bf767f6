//! Converts the results of an NFSv3 procedure to a `Result`. Of an error it keeps only the status;
//! `Client::stubs` gives access to the rest.

use oncrpc::{AsyncTransport, Call, Method};

use super::error::ClientError;
use crate::nfs3::Nfsstat3;
use crate::nfs3::owned::{
    Access3res, Access3resok, Commit3res, Commit3resok, Create3res, Create3resok, Fsinfo3res,
    Fsinfo3resok, Fsstat3res, Fsstat3resok, Getattr3res, Link3res, Link3resok, Lookup3res,
    Lookup3resok, Mkdir3res, Mkdir3resok, Mknod3res, Mknod3resok, Pathconf3res, Pathconf3resok,
    Read3res, Read3resok, Readdir3res, Readdir3resok, Readdirplus3res, Readdirplus3resok,
    Readlink3res, Readlink3resok, Remove3res, Remove3resok, Rename3res, Rename3resok, Rmdir3res,
    Rmdir3resok, Setattr3res, Setattr3resok, Symlink3res, Symlink3resok, Write3res, Write3resok,
};

/// The results of a procedure.
pub(super) trait Outcome {
    /// The results of a successful call.
    type Success;

    fn into_result(self) -> Result<Self::Success, Nfsstat3>;
}

macro_rules! outcomes {
    ($($results:ident: $success:ty),* $(,)?) => {$(
        impl Outcome for $results {
            type Success = $success;

            fn into_result(self) -> Result<Self::Success, Nfsstat3> {
                match self {
                    Self::Ok(success) => Ok(success),
                    Self::Default(status, ..) => Err(status),
                }
            }
        }
    )*};
}
outcomes! {
    Access3res: Access3resok,
    Commit3res: Box<Commit3resok>,
    Create3res: Box<Create3resok>,
    Fsinfo3res: Box<Fsinfo3resok>,
    Fsstat3res: Box<Fsstat3resok>,
    Getattr3res: Box<crate::nfs3::Getattr3resok>,
    Link3res: Box<Link3resok>,
    Lookup3res: Box<Lookup3resok>,
    Mkdir3res: Box<Mkdir3resok>,
    Mknod3res: Box<Mknod3resok>,
    Pathconf3res: Box<Pathconf3resok>,
    Read3res: Box<Read3resok>,
    Readdir3res: Box<Readdir3resok>,
    Readdirplus3res: Box<Readdirplus3resok>,
    Readlink3res: Box<Readlink3resok>,
    Remove3res: Box<Remove3resok>,
    Rename3res: Box<Rename3resok>,
    Rmdir3res: Box<Rmdir3resok>,
    Setattr3res: Box<Setattr3resok>,
    Symlink3res: Box<Symlink3resok>,
    Write3res: Box<Write3resok>,
}

/// Returns the results of a call that has ended, or its status as an error.
pub(super) fn success<P>(
    results: P::Results,
) -> Result<<P::Results as Outcome>::Success, ClientError>
where
    P: Method<Results: Outcome>,
{
    let refused = |status| ClientError::Status {
        procedure: P::NAME,
        status,
    };
    results.into_result().map_err(refused)
}

/// Sends a call, and returns its results as [`success`] does.
pub(super) async fn await_success<T, P>(
    call: Call<'_, T, P>,
) -> Result<<P::Results as Outcome>::Success, ClientError>
where
    T: AsyncTransport,
    P: Method<Results: Outcome>,
{
    success::<P>(call.await?)
}
