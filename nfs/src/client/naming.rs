//! Lookup, creation, renaming and removal of objects.

use oncrpc::AsyncTransport;

use super::base::{Client, attributes};
use super::error::ClientError;
use super::outcome::await_success;
use crate::handle::{FileHandle, Object};
use crate::nfs3::nfs_program::nfs_v3;
use crate::nfs3::owned::{PostOpAttr, PostOpFh3};
use crate::nfs3::{
    Create3args, Createhow3, Link3args, Lookup3args, Mkdir3args, Mknod3args, Mknoddata3,
    Remove3args, Rename3args, Rmdir3args, Sattr3, Symlink3args, Symlinkdata3,
};

impl<T: AsyncTransport> Client<T> {
    /// Looks up a name (LOOKUP). Calls GETATTR if the server does not return the attributes.
    ///
    /// # Errors
    /// Fails as LOOKUP and GETATTR do.
    pub async fn lookup(
        &self,
        dir: &FileHandle,
        name: impl AsRef<[u8]>,
    ) -> Result<Object, ClientError> {
        let what = self.name_args::<nfs_v3::Lookup>(dir, name.as_ref())?;
        let ok = await_success(self.stubs.lookup(&Lookup3args { what })).await?;
        self.object(FileHandle::from(&ok.object.data), ok.obj_attributes)
            .await
    }

    /// Looks up the object of a path, name by name. Empty names are ignored, so that the path `/`
    /// is `dir`. Symbolic links are not followed: if one comes before the last name, the status is
    /// NFS3ERR_NOTDIR.
    ///
    /// # Errors
    /// Fails as LOOKUP and GETATTR do.
    pub async fn lookup_path(
        &self,
        dir: &FileHandle,
        path: impl AsRef<[u8]>,
    ) -> Result<Object, ClientError> {
        let names = path.as_ref().split(|byte| *byte == b'/');
        let mut found = None;
        for name in names.filter(|name| !name.is_empty()) {
            let dir = found.map_or(*dir, |object: Object| object.handle);
            found = Some(self.lookup(&dir, name).await?);
        }
        match found {
            Some(object) => Ok(object),
            None => self.object(*dir, PostOpAttr::False).await,
        }
    }

    /// Creates a regular file (CREATE).
    ///
    /// # Errors
    /// Fails as CREATE, LOOKUP and GETATTR do.
    pub async fn create(
        &self,
        dir: &FileHandle,
        name: impl AsRef<[u8]>,
        how: &Createhow3,
    ) -> Result<Object, ClientError> {
        let name = name.as_ref();
        let args = Create3args {
            r#where: self.name_args::<nfs_v3::Create>(dir, name)?,
            how: *how,
        };
        let ok = await_success(self.stubs.create(&args)).await?;
        self.created(dir, name, ok.obj, ok.obj_attributes).await
    }

    /// Creates a directory (MKDIR).
    ///
    /// # Errors
    /// Fails as MKDIR, LOOKUP and GETATTR do.
    pub async fn make_dir(
        &self,
        dir: &FileHandle,
        name: impl AsRef<[u8]>,
        attributes: &Sattr3,
    ) -> Result<Object, ClientError> {
        let name = name.as_ref();
        let args = Mkdir3args {
            r#where: self.name_args::<nfs_v3::Mkdir>(dir, name)?,
            attributes: *attributes,
        };
        let ok = await_success(self.stubs.mkdir(&args)).await?;
        self.created(dir, name, ok.obj, ok.obj_attributes).await
    }

    /// Creates a symbolic link (SYMLINK).
    ///
    /// # Errors
    /// Fails as SYMLINK, LOOKUP and GETATTR do.
    pub async fn make_symlink(
        &self,
        dir: &FileHandle,
        name: impl AsRef<[u8]>,
        path: impl AsRef<[u8]>,
        attributes: &Sattr3,
    ) -> Result<Object, ClientError> {
        let name = name.as_ref();
        let args = Symlink3args {
            r#where: self.name_args::<nfs_v3::Symlink>(dir, name)?,
            symlink: Symlinkdata3 {
                symlink_attributes: *attributes,
                symlink_data: path.as_ref().into(),
            },
        };
        let ok = await_success(self.stubs.symlink(&args)).await?;
        self.created(dir, name, ok.obj, ok.obj_attributes).await
    }

    /// Creates a device, a socket or a named pipe (MKNOD).
    ///
    /// # Errors
    /// Fails as MKNOD, LOOKUP and GETATTR do.
    pub async fn make_node(
        &self,
        dir: &FileHandle,
        name: impl AsRef<[u8]>,
        what: &Mknoddata3,
    ) -> Result<Object, ClientError> {
        let name = name.as_ref();
        let args = Mknod3args {
            r#where: self.name_args::<nfs_v3::Mknod>(dir, name)?,
            what: *what,
        };
        let ok = await_success(self.stubs.mknod(&args)).await?;
        self.created(dir, name, ok.obj, ok.obj_attributes).await
    }

    /// Removes a name of an object that is not a directory (REMOVE).
    ///
    /// # Errors
    /// Fails as REMOVE does.
    pub async fn remove(
        &self,
        dir: &FileHandle,
        name: impl AsRef<[u8]>,
    ) -> Result<(), ClientError> {
        let object = self.name_args::<nfs_v3::Remove>(dir, name.as_ref())?;
        await_success(self.stubs.remove(&Remove3args { object })).await?;
        Ok(())
    }

    /// Removes an empty directory (RMDIR).
    ///
    /// # Errors
    /// Fails as RMDIR does.
    pub async fn remove_dir(
        &self,
        dir: &FileHandle,
        name: impl AsRef<[u8]>,
    ) -> Result<(), ClientError> {
        let object = self.name_args::<nfs_v3::Rmdir>(dir, name.as_ref())?;
        await_success(self.stubs.rmdir(&Rmdir3args { object })).await?;
        Ok(())
    }

    /// Renames an object (RENAME). Each place is a directory and a name in it.
    ///
    /// # Errors
    /// Fails as RENAME does.
    pub async fn rename(
        &self,
        from: (&FileHandle, &[u8]),
        to: (&FileHandle, &[u8]),
    ) -> Result<(), ClientError> {
        let args = Rename3args {
            from: self.name_args::<nfs_v3::Rename>(from.0, from.1)?,
            to: self.name_args::<nfs_v3::Rename>(to.0, to.1)?,
        };
        await_success(self.stubs.rename(&args)).await?;
        Ok(())
    }

    /// Adds a name to an object (LINK).
    ///
    /// # Errors
    /// Fails as LINK does.
    pub async fn link(
        &self,
        object: &FileHandle,
        dir: &FileHandle,
        name: impl AsRef<[u8]>,
    ) -> Result<(), ClientError> {
        let args = Link3args {
            file: object.as_args(),
            link: self.name_args::<nfs_v3::Link>(dir, name.as_ref())?,
        };
        await_success(self.stubs.link(&args)).await?;
        Ok(())
    }

    /// Returns the created object. The server may omit its handle.
    async fn created(
        &self,
        dir: &FileHandle,
        name: &[u8],
        handle: PostOpFh3,
        returned: PostOpAttr,
    ) -> Result<Object, ClientError> {
        match handle {
            PostOpFh3::True(handle) => {
                let handle = FileHandle::from(&handle.data);
                self.object(handle, returned).await
            }
            PostOpFh3::False => self.lookup(dir, name).await,
        }
    }

    /// Returns an object with the attributes that the server returned, or else those of GETATTR.
    async fn object(
        &self,
        handle: FileHandle,
        returned: PostOpAttr,
    ) -> Result<Object, ClientError> {
        let attributes = match attributes(returned) {
            Some(attributes) => attributes,
            None => self.attributes(&handle).await?,
        };
        Ok(Object { handle, attributes })
    }
}
