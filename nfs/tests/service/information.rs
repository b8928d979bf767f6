//! NULL, FSSTAT, FSINFO and PATHCONF: sections 3.3.0 and 3.3.18 to 3.3.20. Credentials: section
//! 2.1.

use oncrpc::protocol::AuthStat;
use oncrpc::{CallErrorKind, Credentials, ReplyStatus};
use rpcrdma_nfs::nfs3::owned::{Fsinfo3res, Fsstat3res, Pathconf3res};
use rpcrdma_nfs::nfs3::{
    FSF3_CANSETTIME, FSF3_HOMOGENEOUS, FSF3_LINK, FSF3_SYMLINK, Fsinfo3args, Fsstat3args,
    Getattr3args, Nfsstat3, Pathconf3args,
};

use crate::service::support::{attributes_of, each_transport, each_transport_of_memory, fh, open};

#[test]
fn only_null_needs_no_credentials() {
    each_transport(open, async |world| {
        world
            .nfs
            .null()
            .credentials(Credentials::None)
            .await
            .unwrap();
        world
            .mount
            .null()
            .credentials(Credentials::None)
            .await
            .unwrap();
        let args = Getattr3args {
            object: fh(&world.root),
        };
        let call = world.nfs.getattr(&args).credentials(Credentials::None);
        let error = call.await.unwrap_err();
        let too_weak = ReplyStatus::AuthError(AuthStat::AuthTooweak);
        assert!(matches!(error.kind(), CallErrorKind::Status(status) if *status == too_weak));
    });
}

#[test]
fn fsstat_counts_used_space() {
    each_transport_of_memory(open, async |world| {
        let args = Fsstat3args {
            fsroot: fh(&world.root),
        };
        let stat = async || match world.nfs.fsstat(&args).await.unwrap() {
            Fsstat3res::Ok(ok) => ok,
            failed => panic!("{failed:?}"),
        };
        let before = stat().await;
        assert_eq!(before.tbytes, 64 << 20);
        let file = world.file(&world.root, "file", 0o644).await;
        world.write(&file, 0, &[1; 1 << 20]).await.unwrap();
        let after = stat().await;
        assert!(before.fbytes - after.fbytes >= 1 << 20);
        assert_eq!((after.abytes, after.tbytes), (after.fbytes, before.tbytes));
        assert!(after.ffiles < before.ffiles && after.tfiles > after.ffiles);
        let failed = Fsstat3args {
            fsroot: fh(&[7; 16]),
        };
        let failed = world.nfs.fsstat(&failed).await.unwrap();
        assert_eq!(failed.status(), Nfsstat3::Stale);
    });
}

#[test]
fn fsinfo_returns_the_actual_limits() {
    each_transport(open, async |world| {
        let args = Fsinfo3args {
            fsroot: fh(&world.root),
        };
        let Fsinfo3res::Ok(ok) = world.nfs.fsinfo(&args).await.unwrap() else {
            panic!("fails");
        };
        assert_eq!(
            (ok.rtmax, ok.rtpref, ok.wtmax, ok.wtpref),
            (1 << 20, 1 << 20, 1 << 20, 1 << 20)
        );
        assert!(ok.dtpref >= 4096 && ok.rtmult > 0 && ok.wtmult > 0);
        assert_eq!(ok.time_delta.nseconds, 1);
        let max = if world.expected.is_memory {
            1 << 40
        } else {
            i64::MAX as u64
        };
        assert_eq!(ok.maxfilesize, max);
        let all = FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME;
        assert_eq!(ok.properties, all);
        assert_eq!(attributes_of(&ok.obj_attributes).mode, 0o777);
        for (handle, status) in [
            (&[7; 16][..], world.expected.unknown),
            (b"x", Nfsstat3::Badhandle),
        ] {
            let args = Fsinfo3args { fsroot: fh(handle) };
            assert_eq!(world.nfs.fsinfo(&args).await.unwrap().status(), status);
        }
    });
}

#[test]
fn pathconf_returns_the_actual_limits() {
    each_transport(open, async |world| {
        let args = Pathconf3args {
            object: fh(&world.root),
        };
        let Pathconf3res::Ok(ok) = world.nfs.pathconf(&args).await.unwrap() else {
            panic!("fails");
        };
        assert_eq!(
            (ok.name_max, ok.no_trunc, ok.chown_restricted),
            (255, true, true)
        );
        assert_eq!((ok.case_insensitive, ok.case_preserving), (false, true));
        assert!(ok.linkmax > 1);
        let args = Pathconf3args {
            object: fh(&[7; 16]),
        };
        let failed = world.nfs.pathconf(&args).await.unwrap();
        assert_eq!(failed.status(), world.expected.unknown);
    });
}
