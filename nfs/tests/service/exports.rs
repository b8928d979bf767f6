//! Several exports of one server: a call finds its export by path, handle and client.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use oncrpc::tcp::{Server, connect};
use oncrpc::xdr::Text;
use oncrpc::{AuthSys, CallOptions, Channel};
use rpcrdma_nfs::mount3::Mountstat3;
use rpcrdma_nfs::mount3::mount_program::mount_v3;
use rpcrdma_nfs::mount3::owned::Mountres3;
use rpcrdma_nfs::nfs3::nfs_program::nfs_v3;
use rpcrdma_nfs::nfs3::{Link3args, Mkdir3args, Nfsstat3, Rename3args};
use rpcrdma_nfs::{
    Export, ExportSettings, ExportTable, FileSystem, MemoryFileSystem, Network, Squash, router,
};

use crate::service::procedures::statuses;
use crate::service::support::{Handle, World, fh, mode, place};

fn memory() -> MemoryFileSystem {
    MemoryFileSystem::new(1 << 20).root_owner(0, 0, 0o777)
}

fn export<F: FileSystem>(file_system: F, path: &str) -> Export<F> {
    Export::new(file_system).path(path).squash(Squash::None)
}

fn network(text: &str) -> Network {
    text.parse().unwrap()
}

/// Runs a test with clients at 127.0.0.1, and a server of these exports.
fn serve<F: FileSystem>(exports: ExportTable<F>, test: impl AsyncFn(&World)) {
    serve_at([127, 0, 0, 1].into(), exports, test);
}

fn serve_at<F: FileSystem>(at: IpAddr, exports: ExportTable<F>, test: impl AsyncFn(&World)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let run = async {
        let server = Server::bind(SocketAddr::from((at, 0)), router(exports));
        let server = server.await.unwrap();
        let address = format!("127.0.0.1:{}", server.local_addr().unwrap().port());
        tokio::spawn(server.run());
        let channel: Channel = connect(&address).await.unwrap();
        let options = CallOptions::DEFAULT.credentials(AuthSys::new("tester"));
        let world = World {
            nfs: nfs_v3::Client::new(channel.clone()).with_options(options.clone()),
            mount: mount_v3::Client::new(channel).with_options(options),
            root: Vec::new(),
            expected: crate::backends::MEMORY,
        };
        test(&world).await;
    };
    let limit = Duration::from_secs(60);
    runtime.block_on(async { tokio::time::timeout(limit, run).await.expect("hangs") });
}

async fn mnt(world: &World, path: &str) -> Result<Handle, Mountstat3> {
    match world.mount.mnt(&Text::new(path).unwrap()).await.unwrap() {
        Mountres3::Ok(ok) => Ok(ok.fhandle.into_inner()),
        Mountres3::Default(status) => Err(status),
    }
}

#[test]
fn the_longest_matching_export_path_is_selected() {
    let [outer, inner] = [memory(), memory()];
    let (outer_root, inner_root) = (outer.root(), inner.root());
    let exports = ExportTable::new([export(outer, "/srv"), export(inner, "/srv/inner/")]);
    serve(exports, async |world| {
        let at = async |path| mnt(world, path).await;
        assert_eq!(at("/srv").await, Ok(outer_root.as_bytes().to_vec()));
        assert_eq!(at("/srv//inner").await, Ok(inner_root.as_bytes().to_vec()));
        let dir = world.dir(inner_root.as_bytes(), "dir", 0o755).await;
        assert_eq!(at("/srv/inner/dir").await, Ok(dir));
        assert_eq!(at("/srv/dir").await, Err(Mountstat3::Noent));
        assert_eq!(at("/").await, Err(Mountstat3::Noent));
    });
}

/// A socket for both versions of IP returns IPv4-mapped addresses: another socket of the server may
/// remove the entry, and `showmount` prints the address.
#[test]
fn an_ipv4_client_is_listed_by_its_ipv4_address() {
    let any = IpAddr::from(std::net::Ipv6Addr::UNSPECIFIED);
    serve_at(any, export(memory(), "/").into(), async |world| {
        mnt(world, "/").await.unwrap();
        let list = world.mount.dump().await.unwrap();
        assert_eq!(list[0].hostname.as_bytes(), b"127.0.0.1");
    });
}

#[test]
fn clients_of_other_networks_are_rejected() {
    let (closed, open) = (memory(), memory());
    let (root, open_root) = (closed.root(), open.root());
    let closed = export(closed, "/closed").networks([network("192.0.2.0/24")]);
    let local = export(open, "/open").networks([network("192.0.2.1"), network("127.0.0.0/8")]);
    let exports = ExportTable::new([closed, local]);
    serve(exports, async |world| {
        assert_eq!(mnt(world, "/closed").await, Err(Mountstat3::Acces));
        assert_eq!(mnt(world, "/closed/x").await, Err(Mountstat3::Acces));
        assert_eq!(mnt(world, "/open").await, Ok(open_root.as_bytes().to_vec()));
        // A handle from another source does not help.
        let stale = Err(Nfsstat3::Stale);
        assert_eq!(world.attributes(root.as_bytes()).await.map(drop), stale);
        world.attributes(open_root.as_bytes()).await.unwrap();
    });
}

#[test]
fn every_procedure_is_rejected_without_an_export() {
    let closed = memory();
    let root = closed.root();
    let exports = export(closed, "/").networks([network("192.0.2.0/24")]);
    serve(exports.into(), async |world| {
        for (name, status) in statuses(world, root.as_bytes()).await {
            assert_eq!(status, Nfsstat3::Stale, "{name}");
        }
    });
}

#[test]
fn the_first_admitting_export_is_selected() {
    let shared = Arc::new(memory());
    let root = shared.root();
    let of = |read_only, networks: &[&str]| {
        let settings = ExportSettings {
            path: "/data".to_owned(),
            read_only,
            squash: Squash::None,
            networks: networks.iter().map(|text| network(text)).collect(),
            ..ExportSettings::default()
        };
        Export::of_shared(shared.clone(), settings)
    };
    let create = async |world: &World, name: &[u8]| {
        let args = Mkdir3args {
            r#where: place(root.as_bytes(), name),
            attributes: mode(0o755),
        };
        world.nfs.mkdir(&args).await.unwrap().status()
    };
    let elsewhere = of(false, &["192.0.2.0/24"]);
    let exports = ExportTable::new([elsewhere.clone(), of(true, &[])]);
    serve(exports.clone(), async |world| {
        mnt(world, "/data").await.unwrap();
        assert_eq!(create(world, b"a").await, Nfsstat3::Rofs);
        // The table changes while clients are connected.
        exports.replace([elsewhere.clone(), of(false, &["127.0.0.1"]), of(true, &[])]);
        assert_eq!(create(world, b"a").await, Nfsstat3::Ok);
        exports.replace([elsewhere.clone()]);
        assert_eq!(create(world, b"b").await, Nfsstat3::Stale);
        assert_eq!(mnt(world, "/data").await, Err(Mountstat3::Acces));
        exports.replace([]);
        assert_eq!(create(world, b"b").await, Nfsstat3::Stale);
        assert_eq!(mnt(world, "/data").await, Err(Mountstat3::Noent));
        assert!(world.mount.export().await.unwrap().is_empty());
        exports.replace([of(false, &[])]);
        assert_eq!(create(world, b"b").await, Nfsstat3::Ok);
    });
}

#[test]
fn each_export_squashes_its_own_users() {
    let [a, b] = [memory(), memory()];
    let roots = [a.root(), b.root()];
    let exports = ExportTable::new([
        export(a, "/a").squash(Squash::All).anonymous(7, 8),
        export(b, "/b").squash(Squash::Root).anonymous(9, 10),
    ]);
    serve(exports, async |world| {
        let mut owners = Vec::new();
        for root in &roots {
            let file = world.file(root.as_bytes(), "file", 0o644).await;
            let attributes = world.attributes(&file).await.unwrap();
            owners.push((attributes.uid, attributes.gid));
        }
        assert_eq!(owners, [(7, 8), (9, 10)]);
    });
}

/// RENAME and LINK get NFS3ERR_XDEV (sections 3.3.14 and 3.3.15).
#[test]
fn rename_and_link_across_exports_fail() {
    let [a, b] = [memory(), memory()];
    let roots = [a.root(), b.root()];
    serve(
        ExportTable::new([export(a, "/a"), export(b, "/b")]),
        async |world| {
            let [a, b] = [roots[0].as_bytes(), roots[1].as_bytes()];
            let file = world.file(a, "file", 0o644).await;
            let rename = async |from, to| {
                let args = Rename3args { from, to };
                world.nfs.rename(&args).await.unwrap().status()
            };
            let link = async |file: &[u8], link| {
                let args = Link3args {
                    file: fh(file),
                    link,
                };
                world.nfs.link(&args).await.unwrap().status()
            };
            let (from, to) = (place(a, b"file"), place(b, b"file"));
            assert_eq!(rename(from, to).await, Nfsstat3::Xdev);
            assert_eq!(link(&file, to).await, Nfsstat3::Xdev);
            // A handle that no export owns gets the status of its file system.
            assert_eq!(
                rename(from, place(b"none", b"x")).await,
                Nfsstat3::Badhandle
            );
            assert_eq!(rename(place(b"none", b"x"), to).await, Nfsstat3::Badhandle);
            assert_eq!(link(&file, place(b"none", b"x")).await, Nfsstat3::Badhandle);
            assert_eq!(rename(from, place(a, b"new")).await, Nfsstat3::Ok);
            assert_eq!(link(&file, place(a, b"link")).await, Nfsstat3::Ok);
        },
    );
}

#[test]
fn mount_lists_contain_all_exports() {
    let exports = ExportTable::new([
        export(memory(), "/a"),
        export(memory(), "/b").networks([network("127.0.0.0/8"), network("::1")]),
    ]);
    let (one, other) = (exports.clone(), exports.clone());
    serve(exports, async |world| {
        let listed = world.mount.export().await.unwrap();
        let listed: Vec<_> = listed
            .iter()
            .map(|node| {
                let groups = node.groups.iter().map(|name| name.to_str().unwrap());
                (node.dir.to_str().unwrap(), groups.collect::<Vec<_>>())
            })
            .collect();
        let networks = vec!["127.0.0.0/8", "::1"];
        assert_eq!(listed, [("/a", vec![]), ("/b", networks)]);
        mnt(world, "/b/.").await.unwrap();
        mnt(world, "//b").await.unwrap();
    });
    // Another transport of the same server has the same list.
    serve(one, async |world| {
        let dumped = world.mount.dump().await.unwrap();
        let dumped: Vec<_> = dumped
            .iter()
            .map(|mount| {
                (
                    mount.hostname.to_str().unwrap(),
                    mount.directory.to_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(dumped, [("127.0.0.1", "/b")]);
        world.mount.umnt(&Text::new("/b/").unwrap()).await.unwrap();
    });
    serve(other, async |world| {
        assert!(world.mount.dump().await.unwrap().is_empty());
    });
}

#[test]
fn the_list_of_mounts_of_one_host_is_bounded() {
    let file_system = memory();
    let root = file_system.root();
    serve(export(file_system, "/").into(), async |world| {
        for number in 0..100 {
            let name = format!("d{number}");
            world.dir(root.as_bytes(), &name, 0o755).await;
            mnt(world, &format!("/{name}")).await.unwrap();
        }
        assert_eq!(world.mount.dump().await.unwrap().len(), 64);
        world.mount.umntall().await.unwrap();
        assert!(world.mount.dump().await.unwrap().is_empty());
    });
}
