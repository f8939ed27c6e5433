//! Volumes as a file system: other people's NFS clients against a running gate, beside the tools for files.

use std::{collections::BTreeSet, process::Stdio};

use nfs3_client::{
    Nfs3Connection, Nfs3ConnectionBuilder,
    nfs3_types::{
        nfs3::{
            CREATE3args, GETATTR3args, LOOKUP3args, MKDIR3args, Nfs3Option, Nfs3Result, READ3args,
            READDIR3args, READLINK3args, REMOVE3args, RENAME3args, RMDIR3args, SETATTR3args,
            SYMLINK3args, WRITE3args, cookieverf3, createhow3, createverf3, diropargs3, nfs_fh3,
            nfsstat3, sattr3, stable_how, symlinkdata3,
        },
        xdr_codec::Opaque,
    },
    tokio::{TokioConnector, TokioIo},
};
use serde_json::json;
use testkit::gate::Gate;
use tokio::{net::TcpStream, process::Command};

use super::{call, done, label, opened, other, tainted_yard};
use crate::{
    failures::events,
    operator::{self, told},
};

const SMALL: &str = "volumes:\n  workspace: { classification: CONFIDENTIAL, writable: true, max_bytes: 4MiB }\n  \
                     shelf: { classification: INTERNAL }\n";

struct Mounted {
    client: Nfs3Connection<TokioIo<TcpStream>>,
    root: nfs_fh3,
}

type Done<T> = Result<T, nfsstat3>;

fn came<T, E>(result: Nfs3Result<T, E>) -> Done<T> {
    match result {
        Nfs3Result::Ok(done) => Ok(done),
        Nfs3Result::Err((status, _)) => Err(status),
    }
}

fn place(dir: &nfs_fh3, name: &str) -> diropargs3<'static> {
    diropargs3 {
        dir: dir.clone(),
        name: name.as_bytes().to_vec().into(),
    }
}

/// Attaches a volume with the operator's verb, and gives back the port and the path.
async fn attach(gate: &Gate, volume: &str, caller: &str, more: &[&str]) -> (u16, String) {
    let verb = [&["volume", "attach", volume, "--caller", caller], more].concat();
    let attached = told(gate, &verb).await;
    let address = attached["address"].as_str().unwrap();
    let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
    (port, attached["path"].as_str().unwrap().to_owned())
}

async fn mount((port, path): &(u16, String)) -> Mounted {
    let client = Nfs3ConnectionBuilder::new(TokioConnector, "127.0.0.1", path)
        .connect_from_privileged_port(false)
        .mount_port(*port)
        .nfs3_port(*port)
        .mount()
        .await
        .unwrap();
    let root = client.root_nfs_fh3();
    Mounted { client, root }
}

impl Mounted {
    async fn lookup(&mut self, dir: &nfs_fh3, name: &str) -> Done<nfs_fh3> {
        let what = place(dir, name);
        let found = self.client.lookup(&LOOKUP3args { what }).await.unwrap();
        came(found).map(|found| found.object)
    }

    async fn create(&mut self, dir: &nfs_fh3, name: &str, how: createhow3) -> Done<nfs_fh3> {
        let where_ = place(dir, name);
        let made = self.client.create(&CREATE3args { where_, how }).await;
        came(made.unwrap()).map(|made| made.obj.unwrap())
    }

    async fn mkdir(&mut self, dir: &nfs_fh3, name: &str) -> Done<nfs_fh3> {
        let (where_, attributes) = (place(dir, name), sattr3::default());
        let made = self.client.mkdir(&MKDIR3args { where_, attributes }).await;
        came(made.unwrap()).map(|made| made.obj.unwrap())
    }

    async fn write(&mut self, file: &nfs_fh3, offset: u64, data: &[u8]) -> Done<u32> {
        let args = WRITE3args {
            file: file.clone(),
            offset,
            count: data.len().try_into().unwrap(),
            stable: stable_how::FILE_SYNC,
            data: Opaque::borrowed(data),
        };
        came(self.client.write(&args).await.unwrap()).map(|done| done.count)
    }

    async fn read(&mut self, file: &nfs_fh3) -> Done<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let args = READ3args {
                file: file.clone(),
                offset: all.len() as u64,
                count: 1 << 20,
            };
            let part = came(self.client.read(&args).await.unwrap())?;
            all.extend_from_slice(&part.data);
            if part.eof {
                return Ok(all);
            }
        }
    }

    async fn resize(&mut self, file: &nfs_fh3, size: u64) -> Done<()> {
        let args = SETATTR3args {
            object: file.clone(),
            new_attributes: sattr3 {
                size: Nfs3Option::Some(size),
                ..sattr3::default()
            },
            guard: Nfs3Option::None,
        };
        came(self.client.setattr(&args).await.unwrap()).map(drop)
    }

    async fn look(&mut self, object: &nfs_fh3) -> Done<u64> {
        let object = object.clone();
        let found = self.client.getattr(&GETATTR3args { object }).await.unwrap();
        came(found).map(|found| found.obj_attributes.size)
    }

    async fn remove(&mut self, dir: &nfs_fh3, name: &str) -> Done<()> {
        let object = place(dir, name);
        let done = self.client.remove(&REMOVE3args { object }).await.unwrap();
        came(done).map(drop)
    }

    async fn rmdir(&mut self, dir: &nfs_fh3, name: &str) -> Done<()> {
        let object = place(dir, name);
        let done = self.client.rmdir(&RMDIR3args { object }).await.unwrap();
        came(done).map(drop)
    }

    async fn rename(&mut self, from: (&nfs_fh3, &str), to: (&nfs_fh3, &str)) -> Done<()> {
        let args = RENAME3args {
            from: place(from.0, from.1),
            to: place(to.0, to.1),
        };
        came(self.client.rename(&args).await.unwrap()).map(drop)
    }

    /// Names and the cookie of the last one, from a cookie on.
    async fn page(&mut self, dir: &nfs_fh3, cookie: u64) -> Done<(Vec<String>, u64, bool)> {
        let args = READDIR3args {
            dir: dir.clone(),
            cookie,
            cookieverf: cookieverf3::default(),
            count: 1024,
        };
        let page = came(self.client.readdir(&args).await.unwrap())?;
        let entries = page.reply.entries.into_inner();
        let last = entries.last().map_or(cookie, |entry| entry.cookie);
        let names = entries.iter().map(|entry| entry.name.as_ref().to_vec());
        let names = names.map(|name| String::from_utf8(name).unwrap()).collect();
        Ok((names, last, page.reply.eof))
    }

    async fn names(&mut self, dir: &nfs_fh3) -> Done<Vec<String>> {
        let (mut all, mut cookie) = (Vec::new(), 0);
        loop {
            let (names, last, is_end) = self.page(dir, cookie).await?;
            all.extend(names.into_iter().filter(|name| !name.starts_with('.')));
            if is_end {
                all.sort();
                return Ok(all);
            }
            cookie = last;
        }
    }
}

fn anew() -> createhow3 {
    createhow3::GUARDED(sattr3::default())
}

#[tokio::test]
async fn what_tools_write_is_in_the_mount_at_once_and_the_other_way_round() {
    let gate = opened(SMALL).await;
    let agent = other(&gate, "agent", &[]).await;
    let at = attach(&gate, "workspace", "agent", &[]).await;
    let mut mount = mount(&at).await;
    let root = mount.root.clone();
    let write = json!({"path": "src/a.rs", "content": "fn main() {}\n"});
    done(&agent, "fs.write", write).await;
    let src = mount.lookup(&root, "src").await.unwrap();
    let file = mount.lookup(&src, "a.rs").await.unwrap();
    assert_eq!(mount.read(&file).await.unwrap(), b"fn main() {}\n");

    // A file in three parts, longer than one request.
    let big: Vec<u8> = (0..2_500_000_u32).map(|n| (n % 251) as u8).collect();
    let made = mount.create(&src, "big", anew()).await.unwrap();
    for (part, at) in big.chunks(1 << 20).zip((0_u64..).step_by(1 << 20)) {
        assert_eq!(mount.write(&made, at, part).await, Ok(part.len() as u32));
    }
    assert_eq!(mount.read(&made).await.unwrap(), big);
    let stat = done(&agent, "fs.stat", json!({"path": "src/big"})).await.1;
    assert_eq!(stat["size_bytes"], 2_500_000, "{stat}");
    // Cut and written anew, it has no tail of before.
    mount.resize(&made, 0).await.unwrap();
    mount.write(&made, 0, b"short").await.unwrap();
    let read = done(&agent, "fs.read", json!({"path": "src/big"})).await;
    assert_eq!(read.0, "short");

    // Made twice: once only, but for the same request that came again.
    assert_eq!(
        mount.create(&src, "big", anew()).await,
        Err(nfsstat3::NFS3ERR_EXIST)
    );
    let once = || createhow3::EXCLUSIVE(createverf3(*b"verifier"));
    let first = mount.create(&src, "lock", once()).await.unwrap();
    assert_eq!(mount.create(&src, "lock", once()).await, Ok(first));
    let other_one = createhow3::EXCLUSIVE(createverf3(*b"somebody"));
    assert_eq!(
        mount.create(&src, "lock", other_one).await,
        Err(nfsstat3::NFS3ERR_EXIST)
    );

    let dir = mount.mkdir(&root, "dir").await.unwrap();
    mount.rename((&src, "big"), (&dir, "small")).await.unwrap();
    assert_eq!(
        mount.read(&made).await.unwrap(),
        b"short",
        "the same handle"
    );
    let listed = done(&agent, "fs.list", json!({"path": "/workspace/dir"})).await;
    assert_eq!(listed.0, "small");
    assert_eq!(
        mount.rmdir(&root, "dir").await,
        Err(nfsstat3::NFS3ERR_NOTEMPTY)
    );
    assert_eq!(
        mount.remove(&root, "dir").await,
        Err(nfsstat3::NFS3ERR_ISDIR)
    );
    mount.remove(&dir, "small").await.unwrap();
    assert_eq!(mount.look(&made).await, Err(nfsstat3::NFS3ERR_STALE));
    mount.rmdir(&root, "dir").await.unwrap();
    assert_eq!(
        mount.lookup(&root, "dir").await,
        Err(nfsstat3::NFS3ERR_NOENT)
    );

    // A link is its text; the gate follows it only inside.
    let symlink = symlinkdata3 {
        symlink_attributes: sattr3::default(),
        symlink_data: b"/etc/passwd".to_vec().into(),
    };
    let where_ = place(&root, "link");
    let made = mount
        .client
        .symlink(&SYMLINK3args { where_, symlink })
        .await;
    let symlink = came(made.unwrap()).unwrap().obj.unwrap();
    let text = mount.client.readlink(&READLINK3args { symlink }).await;
    assert_eq!(came(text.unwrap()).unwrap().data.as_ref(), b"/etc/passwd");
    let read = call(&agent, "fs.read", json!({"path": "link"})).await;
    assert_eq!(read.violation(), Some("PathTraversalAttempt"));

    operator::done(
        &gate,
        &["volume", "detach", "workspace", "--caller", "agent"],
    )
    .await;
    // The client reads for ever from a connection that was closed, so another one is tried.
    let closed = async {
        while TcpStream::connect(("127.0.0.1", at.0)).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    let closed = tokio::time::timeout(operator::SOON, closed).await;
    assert!(closed.is_ok(), "nobody listens any more");
}

#[tokio::test]
async fn a_long_directory_is_listed_whole_while_it_shrinks() {
    let gate = opened(SMALL).await;
    other(&gate, "agent", &[]).await;
    let mut mount = mount(&attach(&gate, "workspace", "agent", &[]).await).await;
    let dir = mount.mkdir(&mount.root.clone(), "many").await.unwrap();
    let mut wanted = BTreeSet::new();
    for number in 0..120 {
        let name = format!("file-{number:03}");
        mount.create(&dir, &name, anew()).await.unwrap();
        wanted.insert(name);
    }
    assert_eq!(
        mount.names(&dir).await.unwrap(),
        wanted.iter().cloned().collect::<Vec<_>>()
    );
    // What was told is removed before the next page is asked for, as `rm -r` does.
    let (mut cookie, mut is_end) = (0, false);
    while !is_end {
        let (names, last, end) = mount.page(&dir, cookie).await.unwrap();
        for name in names.iter().filter(|name| !name.starts_with('.')) {
            mount.remove(&dir, name).await.unwrap();
            assert!(wanted.remove(name), "{name} was told twice");
        }
        (cookie, is_end) = (last, end);
    }
    assert!(wanted.is_empty(), "never told: {wanted:?}");
    mount.rmdir(&mount.root.clone(), "many").await.unwrap();
}

#[tokio::test]
async fn what_a_mount_tells_is_in_the_label_before_it_is_told() {
    let (gate, tainted, _secret) = tainted_yard().await;
    let open = json!({"path": "open/plain", "content": "nothing"});
    let reader = other(&gate, "reader", &[]).await;
    done(&reader, "fs.write", open).await;
    let plans = json!({"path": "shut/plans", "content": "the plans"});
    done(&tainted, "fs.write", plans).await;
    let at = attach(&gate, "workspace", "reader", &[]).await;
    let mut mounted = mount(&at).await;
    let root = mounted.root.clone();
    let open = mounted.lookup(&root, "open").await.unwrap();
    let plain = mounted.lookup(&open, "plain").await.unwrap();
    assert_eq!(mounted.read(&plain).await.unwrap(), b"nothing");
    assert_eq!(label(&reader).await, "PUBLIC");
    // Even that there is such a directory is the secret of who made it.
    let shut = mounted.lookup(&root, "shut").await.unwrap();
    assert_eq!(label(&reader).await, "CONFIDENTIAL");
    let plans = mounted.lookup(&shut, "plans").await.unwrap();
    assert_eq!(mounted.read(&plans).await.unwrap(), b"the plans");

    // What is written over the mount from then on carries it too, also in a file that was public.
    mounted.write(&plain, 0, b"NOTHING").await.unwrap();
    let third = other(&gate, "third", &[]).await;
    let (text, told) = done(&third, "fs.read", json!({"path": "open/plain"})).await;
    assert_eq!(
        (text.as_str(), &told["label"]),
        ("NOTHING", &json!("CONFIDENTIAL"))
    );
    assert_eq!(label(&third).await, "CONFIDENTIAL");
}

#[tokio::test]
async fn a_mount_holds_to_the_rules_of_the_tools() {
    let contexts = "security_contexts:\n  - name: coder\n    description: x\n    capabilities:\n      - { tool_pattern: 'fs.*', path_allowlist: [/workspace] }\n    deny_list: ['fs.read:/workspace/.env']\n";
    let gate = opened(&format!("{SMALL}{contexts}")).await;
    let free = other(&gate, "free", &[]).await;
    done(&free, "fs.write", json!({"path": ".env", "content": "KEY"})).await;
    done(&free, "fs.write", json!({"path": "f", "content": "text"})).await;
    other(&gate, "coder", &["--context", "coder"]).await;
    let mut coder = mount(&attach(&gate, "workspace", "coder", &[]).await).await;
    let root = coder.root.clone();
    assert_eq!(coder.names(&root).await.unwrap(), ["f"]);
    assert_eq!(
        coder.lookup(&root, ".env").await,
        Err(nfsstat3::NFS3ERR_NOENT)
    );
    let file = coder.lookup(&root, "f").await.unwrap();
    assert_eq!(coder.read(&file).await.unwrap(), b"text");

    // More than there may be.
    let made = coder.create(&root, "big", anew()).await.unwrap();
    let part = vec![0; 1 << 20];
    let mut written = Ok(0);
    for at in 0..5_u64 {
        written = coder.write(&made, at << 20, &part).await;
        if written.is_err() {
            break;
        }
    }
    assert_eq!(written, Err(nfsstat3::NFS3ERR_NOSPC));
    coder.remove(&root, "big").await.unwrap();
    let again = coder.create(&root, "again", anew()).await.unwrap();
    assert_eq!(
        coder.write(&again, 0, &part).await,
        Ok(1 << 20),
        "given back"
    );

    // A volume that nobody may write to.
    let mut shelf = mount(&attach(&gate, "shelf", "free", &[]).await).await;
    let root = shelf.root.clone();
    let refused = shelf.create(&root, "x", anew()).await.unwrap_err();
    assert!(
        matches!(refused, nfsstat3::NFS3ERR_ROFS | nfsstat3::NFS3ERR_ACCES),
        "{refused:?}"
    );

    // A credential that is revoked has nothing any more.
    operator::done(&gate, &["token", "revoke", "coder"]).await;
    assert_eq!(operator::post(&gate, "reload", &json!({})).await.0, 200);
    assert_eq!(coder.read(&file).await, Err(nfsstat3::NFS3ERR_ACCES));
}

#[tokio::test]
async fn a_handle_of_another_mount_is_refused_and_told() {
    let gate = opened(SMALL).await;
    let one = other(&gate, "one", &[]).await;
    other(&gate, "two", &[]).await;
    done(&one, "fs.write", json!({"path": "f", "content": "text"})).await;
    let mut first = mount(&attach(&gate, "workspace", "one", &[]).await).await;
    let mut second = mount(&attach(&gate, "workspace", "two", &[]).await).await;
    let file = first.lookup(&first.root.clone(), "f").await.unwrap();
    assert_eq!(file.data.len(), 64);
    assert_eq!(second.read(&file).await, Err(nfsstat3::NFS3ERR_ACCES));
    let seen = events(&gate, &["--event", "UnauthorizedVolumeAccess"]).await;
    assert_eq!(seen.len(), 1, "{seen:#?}");
    for byte in [0, 16, 32, 47, 48, 63] {
        let mut forged = file.data.to_vec();
        forged[byte] ^= 1;
        let data = Opaque::owned(forged);
        let refused = first.read(&nfs_fh3 { data }).await;
        assert_eq!(refused, Err(nfsstat3::NFS3ERR_BADHANDLE));
    }
    assert_eq!(first.read(&file).await.unwrap(), b"text");
}

#[tokio::test]
async fn handles_live_over_a_restart_of_the_gate() {
    let mut gate = opened(SMALL).await;
    let agent = other(&gate, "agent", &[]).await;
    let content = json!({"path": "a/b/c", "content": "deep"});
    done(&agent, "fs.write", content).await;
    let at = attach(&gate, "workspace", "agent", &[]).await;
    let mut before = mount(&at).await;
    let root = before.root.clone();
    let a = before.lookup(&root, "a").await.unwrap();
    let b = before.lookup(&a, "b").await.unwrap();
    let c = before.lookup(&b, "c").await.unwrap();
    gate.kill().unwrap();
    gate.start_again().await.unwrap();
    let at = attach(&gate, "workspace", "agent", &[]).await;
    let mut after = mount(&at).await;
    assert_eq!(after.read(&c).await.unwrap(), b"deep");
    after.write(&c, 0, b"DEEP").await.unwrap();
    let agent = other(&gate, "other", &[]).await;
    assert_eq!(
        done(&agent, "fs.read", json!({"path": "a/b/c"})).await.0,
        "DEEP"
    );
}

/// The tools of libnfs, which are other people's too: `nfs-cp`, `nfs-cat` and `nfs-ls`.
#[tokio::test]
async fn the_tools_of_libnfs_work_on_a_mount() {
    let gate = opened(SMALL).await;
    let agent = other(&gate, "agent", &[]).await;
    let (port, path) = attach(&gate, "workspace", "agent", &[]).await;
    let url = |file: &str| format!("nfs://127.0.0.1{path}/{file}?nfsport={port}&mountport={port}");
    let run = async |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        let ran = command.args(args).stdin(Stdio::null()).output().await;
        let ran = ran.expect("libnfs-utils is installed by `cargo xtask check`");
        assert!(ran.status.success(), "{program} {args:?}: {ran:?}");
        ran.stdout
    };
    let yard = tempfile::tempdir().unwrap();
    let local = yard.path().join("local");
    let content: Vec<u8> = (0..300_000_u32).map(|n| (n % 253) as u8).collect();
    std::fs::write(&local, &content).unwrap();
    run("nfs-cp", &[local.to_str().unwrap(), &url("copied")]).await;
    assert_eq!(run("nfs-cat", &[&url("copied")]).await, content);
    let stat = done(&agent, "fs.stat", json!({"path": "copied"})).await.1;
    assert_eq!(stat["size_bytes"], 300_000, "{stat}");
    let edited = json!({"path": "notes", "content": "seen by all"});
    done(&agent, "fs.write", edited).await;
    assert_eq!(run("nfs-cat", &[&url("notes")]).await, b"seen by all");
    let listed = run("nfs-ls", &[&url("")]).await;
    let listed = String::from_utf8(listed).unwrap();
    assert!(
        listed.contains("copied") && listed.contains("notes"),
        "{listed}"
    );
}
