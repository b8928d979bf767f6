//! The service: a handler for each procedure.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oncrpc::xdr::SharedBytes;
use oncrpc::{Context, RpcError};

use crate::store::store::v1::{GetResults, Service};
use crate::store::{GetOk, GetRes, Key, PutArgs, Status};

/// A store in memory. Clones share their values: each thread of the server has a clone.
#[derive(Clone, Debug)]
pub struct Store(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    max_bytes: usize,
    contents: Mutex<Contents>,
}

#[derive(Debug, Default)]
struct Contents {
    values: HashMap<Box<[u8]>, SharedBytes>,
    /// The total size of the keys and values, in bytes.
    bytes: usize,
}

impl Store {
    /// Creates a store with a maximum size of keys and values in bytes.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        let contents = Mutex::default();
        Self(Arc::new(Shared {
            max_bytes,
            contents,
        }))
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        // A poisoned lock is consistent, because no panic can occur between two changes.
        let contents = self.0.contents.lock();
        contents.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service for Store {
    async fn get(&self, _: &Context, key: Key<'_>) -> Result<GetResults<'_>, RpcError> {
        let value = self.contents().values.get(key.as_bytes()).cloned();
        let found = match value {
            // The reply is sent from the stored value, without a copy.
            Some(value) => GetRes::Ok(GetOk {
                value: value.into(),
            }),
            None => GetRes::Default(Status::NotFound),
        };
        Ok(found.into())
    }

    async fn put(&self, _: &Context, args: PutArgs<'_>) -> Result<Status, RpcError> {
        let key = args.key.as_bytes();
        // Keeps the memory into which the transport received the data, without a copy if possible.
        let value = args.value.into_shared();
        let mut contents = self.contents();
        let earlier = contents
            .values
            .get(key)
            .map(|value| key.len() + value.len());
        let bytes = contents.bytes - earlier.unwrap_or(0) + key.len() + value.len();
        if bytes > self.0.max_bytes {
            return Ok(Status::Full);
        }
        contents.bytes = bytes;
        contents.values.insert(key.into(), value);
        Ok(Status::Ok)
    }

    async fn delete(&self, _: &Context, key: Key<'_>) -> Result<Status, RpcError> {
        let mut contents = self.contents();
        match contents.values.remove(key.as_bytes()) {
            Some(value) => {
                contents.bytes -= key.as_bytes().len() + value.len();
                Ok(Status::Ok)
            }
            None => Ok(Status::NotFound),
        }
    }
}
