//! MOUNT: section 5.2.

use oncrpc::xdr::Text;
use oncrpc::{CallErrorKind, Credentials};
use rpcrdma_nfs::mount3::Mountstat3;
use rpcrdma_nfs::mount3::owned::Mountres3;

use crate::backends::Offer;
use crate::service::support::{Handle, World, each_transport, open};

async fn mnt(world: &World, path: &str) -> Result<Handle, Mountstat3> {
    let path = Text::new(path).unwrap();
    match world.mount.mnt(&path).await.unwrap() {
        Mountres3::Ok(ok) => {
            // AUTH_SYS.
            assert_eq!(*ok.auth_flavors, [1]);
            Ok(ok.fhandle.into_inner())
        }
        Mountres3::Default(status) => Err(status),
    }
}

#[test]
fn mnt_returns_the_handles_of_directories() {
    each_transport(open, async |world| {
        let dir = world.dir(&world.root, "dir", 0o755).await;
        let inner = world.dir(&dir, "inner", 0o755).await;
        world.file(&dir, "file", 0o644).await;
        assert_eq!(mnt(world, "/").await, Ok(world.root.clone()));
        assert_eq!(mnt(world, "/dir").await, Ok(dir.clone()));
        assert_eq!(mnt(world, "//dir/./inner/").await, Ok(inner));
        assert_eq!(mnt(world, "/dir/file").await, Err(Mountstat3::Notdir));
        assert_eq!(mnt(world, "/dir/none").await, Err(Mountstat3::Noent));
        assert_eq!(mnt(world, "/dir/..").await, Err(Mountstat3::Acces));
        assert_eq!(mnt(world, "").await, Err(Mountstat3::Noent));
        assert_eq!(mnt(world, "dir").await, Err(Mountstat3::Noent));
        let long = format!("/{}", "x".repeat(256));
        assert_eq!(mnt(world, &long).await, Err(Mountstat3::Nametoolong));
    });
}

#[test]
fn exports_are_mounted_by_their_paths() {
    let with_path = || Offer {
        path: "/srv/data",
        ..open()
    };
    each_transport(with_path, async |world| {
        assert_eq!(mnt(world, "/srv/data").await, Ok(world.root.clone()));
        assert_eq!(mnt(world, "/srv").await, Err(Mountstat3::Noent));
        assert_eq!(mnt(world, "/srv/database").await, Err(Mountstat3::Noent));
        let exports = world.mount.export().await.unwrap();
        assert_eq!(exports.len(), 1);
        assert_eq!(exports[0].dir.as_bytes(), b"/srv/data");
        assert!(exports[0].groups.is_empty());
    });
}

#[test]
fn dump_lists_the_mounts() {
    each_transport(open, async |world| {
        world.dir(&world.root, "a", 0o755).await;
        world.dir(&world.root, "b", 0o755).await;
        for path in ["/a", "/b", "/a", "/none"] {
            let _ = mnt(world, path).await;
        }
        let mounted = async || {
            let list = world.mount.dump().await.unwrap();
            let paths = list
                .iter()
                .map(|mount| mount.directory.to_str().unwrap().to_owned());
            paths.collect::<Vec<_>>()
        };
        assert_eq!(mounted().await, ["/a", "/b"]);
        world.mount.umnt(&Text::new("/a").unwrap()).await.unwrap();
        assert_eq!(mounted().await, ["/b"]);
        world.mount.umntall().await.unwrap();
        assert!(mounted().await.is_empty());
    });
}

#[test]
fn mnt_umnt_and_umntall_need_credentials() {
    each_transport(open, async |world| {
        let path = Text::new("/").unwrap();
        let none = Credentials::None;
        let mnt = world.mount.mnt(&path).credentials(none.clone()).await;
        let umnt = world.mount.umnt(&path).credentials(none.clone()).await;
        let umntall = world.mount.umntall().credentials(none.clone()).await;
        for error in [mnt.err(), umnt.err(), umntall.err()] {
            assert!(matches!(error.unwrap().kind(), CallErrorKind::Status(_)));
        }
        world.mount.dump().credentials(none.clone()).await.unwrap();
        world.mount.export().credentials(none).await.unwrap();
    });
}
