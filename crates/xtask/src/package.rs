//! `cargo xtask package`: a Debian package of the programs, their manual and the service, under `target/package`.
//!
//! The programs are built with the profile `dist`; `--profile NAME` takes another. The package is put together by `dpkg-deb` alone.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure as must};

use crate::{check::ensure, say, tools::process};

const PROGRAMS: [&str; 3] = ["portcullis", "portcullis-worker", "portcullis-executor"];

/// What is copied as it is: from where in the tree, to where on the machine.
const FILES: &[(&str, &str)] = &[
    (
        "packaging/systemd/portcullis.service",
        "usr/lib/systemd/system/portcullis.service",
    ),
    (
        "packaging/systemd/portcullis.sysusers",
        "usr/lib/sysusers.d/portcullis.conf",
    ),
    (
        "packaging/apparmor/portcullis-worker",
        "etc/apparmor.d/portcullis-worker",
    ),
    ("packaging/debian/environment", "etc/portcullis/environment"),
];

/// What an administrator may have changed, and an upgrade leaves alone.
const CONFFILES: &str = "/etc/apparmor.d/portcullis-worker\n/etc/portcullis/environment\n";

const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let profile = match arguments {
        [] => "dist",
        [option, profile] if option == "--profile" => profile,
        _ => anyhow::bail!("usage: cargo xtask package [--profile NAME]"),
    };
    let package = build(profile)?;
    say(format_args!("{}", package.display()));
    say(
        "install with: sudo apt install ./FILE; start with: sudo systemctl enable --now portcullis",
    );
    Ok(())
}

/// The unit's exposure in tenths, at most: jails need namespaces, so it is not less.
const MOST_EXPOSURE: &str = "30";

/// Tries the package in a Debian of its own. `PACKAGE_PROFILE` names the profile of the programs.
pub(crate) fn campaign() -> Result<String> {
    let profile = std::env::var("PACKAGE_PROFILE").unwrap_or_else(|_| "dist".to_owned());
    ensure::packaging()?;
    let package = build(&profile)?;
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error"]);
    if profile == "dev" {
        // Programs for debugging keep their symbols.
        lintian.args(["--suppress-tags", "unstripped-binary-or-object"]);
    }
    run_command(lintian.arg(&package))?;
    let stage = process::root()?.join("target/package/stage");
    let unit = stage.join("usr/lib/systemd/system/portcullis.service");
    run_command(
        Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--threshold", MOST_EXPOSURE])
            .arg(unit)
            .stdout(Stdio::null()),
    )?;
    let dir = process::root()?.join("target/package/root");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    run_command(
        Command::new("debootstrap")
            .args(["--variant=minbase", "bookworm"])
            .arg(&dir)
            .stdout(Stdio::null()),
    )?;
    fs::copy(&package, dir.join("portcullis.deb"))?;
    let inside = |script: &str| {
        say(script);
        run_command(Command::new("chroot").arg(&dir).args(["sh", "-ec", script]))
    };
    for script in LIFE {
        inside(script)?;
    }
    fs::remove_dir_all(&dir)?;
    Ok(format!("{} steps", LIFE.len()))
}

/// What becomes of a package on a machine; each step fails if what it says is not so.
const LIFE: [&str; 5] = [
    "dpkg -i /portcullis.deb && getent passwd portcullis && test \"$(stat -c %a:%U /var/lib/portcullis)\" = 700:portcullis",
    "portcullis --version && portcullis man >/dev/null && test -e /usr/share/man/man1/portcullis-servers-add.1.gz",
    "mkdir -p /var/lib/portcullis/ledger && echo evidence > /var/lib/portcullis/ledger/x && echo '# mine' >> /etc/portcullis/environment",
    "dpkg -i /portcullis.deb && grep -q mine /etc/portcullis/environment",
    "dpkg -r portcullis && test ! -e /usr/bin/portcullis && dpkg -P portcullis && test -e /var/lib/portcullis/ledger/x && test ! -e /etc/portcullis/environment",
];

/// Builds the programs and the package of them; the package's path.
pub(crate) fn build(profile: &str) -> Result<PathBuf> {
    let root = process::root()?;
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--quiet", "--locked", "--profile", profile])
        .current_dir(&root);
    run_command(&mut cargo)?;
    let built = root.join("target").join(match profile {
        "dev" => "debug",
        other => other,
    });
    let stage = root.join("target/package/stage");
    if stage.exists() {
        fs::remove_dir_all(&stage)?;
    }
    lay_out(&root, &built, &stage)?;
    let version = version(&built)?;
    let architecture = said(Command::new("dpkg").arg("--print-architecture"))?;
    control(&root, &stage, &version, architecture.trim())?;
    let package = root.join(format!(
        "target/package/portcullis_{version}_{}.deb",
        architecture.trim()
    ));
    run_command(
        Command::new("dpkg-deb")
            .args(["--build", "--root-owner-group", "-Zxz"])
            .args([&stage, &package])
            .stdout(Stdio::null()),
    )?;
    Ok(package)
}

/// Everything that lies on the machine afterwards.
fn lay_out(root: &Path, built: &Path, stage: &Path) -> Result<()> {
    for program in PROGRAMS {
        place(
            &built.join(program),
            &stage.join("usr/bin").join(program),
            0o755,
        )?;
    }
    for (from, to) in FILES {
        place(&root.join(from), &stage.join(to), 0o644)?;
    }
    let portcullis = stage.join("usr/bin/portcullis");
    let manual = stage.join("usr/share/man/man1");
    run_command(
        Command::new(&portcullis)
            .args(["man", "--out"])
            .arg(&manual)
            .stdout(Stdio::null()),
    )?;
    for page in fs::read_dir(&manual)? {
        // The time of packaging is no part of a page.
        run_command(Command::new("gzip").args(["-9n"]).arg(page?.path()))?;
    }
    for (shell, to) in [
        ("bash", "usr/share/bash-completion/completions/portcullis"),
        ("zsh", "usr/share/zsh/vendor-completions/_portcullis"),
        (
            "fish",
            "usr/share/fish/vendor_completions.d/portcullis.fish",
        ),
    ] {
        let script = said(Command::new(&portcullis).args(["completions", shell]))?;
        write(&stage.join(to), &script)?;
    }
    let docs = stage.join("usr/share/doc/portcullis");
    write(&docs.join("copyright"), COPYRIGHT)?;
    place(
        &root.join("CHANGELOG.md"),
        &docs.join("CHANGELOG.md"),
        0o644,
    )?;
    let changelog = format!(
        "portcullis ({}) unstable; urgency=medium\n\n  * What is new is in CHANGELOG.md.gz.\n\n -- {MAINTAINER}  Thu, 01 Jan 2026 00:00:00 +0000\n",
        version(built)?
    );
    write(&docs.join("changelog"), &changelog)?;
    for page in ["CHANGELOG.md", "changelog"] {
        run_command(Command::new("gzip").args(["-9n"]).arg(docs.join(page)))?;
    }
    Ok(())
}

/// What the package manager reads.
fn control(root: &Path, stage: &Path, version: &str, architecture: &str) -> Result<()> {
    let libc = stage.join("usr/bin/portcullis");
    let control = format!(
        "Package: portcullis\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n\
         Section: net\nPriority: optional\nDepends: libc6 (>= {}), libgcc-s1\nRecommends: ca-certificates\n\
         Installed-Size: {}\nDescription: gate between AI agents and the tools they call\n \
         Every call of an agent to an MCP server, a file, the web or a command passes\n \
         one path, where it is identified, bounded, judged, recorded and inspected.\n",
        glibc(&fs::read(&libc)?).context("the program names no version of the C library")?,
        size_kib(stage)?
    );
    write(&stage.join("DEBIAN/control"), &control)?;
    write(&stage.join("DEBIAN/conffiles"), CONFFILES)?;
    for script in SCRIPTS {
        place(
            &root.join("packaging/debian").join(script),
            &stage.join("DEBIAN").join(script),
            0o755,
        )?;
    }
    Ok(())
}

const MAINTAINER: &str = "Portcullis maintainers <maintainers@portcullis.example>";

const COPYRIGHT: &str = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
Upstream-Name: portcullis\n\nFiles: *\nCopyright: 2026 the Portcullis authors\nLicense: Apache-2.0\n \
On Debian systems the licence is in /usr/share/common-licenses/Apache-2.0.\n";

/// The newest version of the C library that a program asks for.
fn glibc(program: &[u8]) -> Option<String> {
    const MARK: &[u8] = b"GLIBC_2.";
    let found = program.windows(MARK.len()).enumerate();
    let minor = found
        .filter(|(_, bytes)| *bytes == MARK)
        .filter_map(|(at, _)| {
            let rest = program.get(at + MARK.len()..)?;
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
            let digits: Vec<u8> = digits.take(3).copied().collect();
            String::from_utf8(digits).ok()?.parse::<u32>().ok()
        });
    minor.max().map(|minor| format!("2.{minor}"))
}

fn version(built: &Path) -> Result<String> {
    let said = said(Command::new(built.join("portcullis")).arg("--version"))?;
    let version = said.split_whitespace().nth(1);
    Ok(version.context("the program says no version")?.to_owned())
}

fn size_kib(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => size_kib(&entry.path())? * 1024,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes.div_ceil(1024))
}

fn place(from: &Path, to: &Path, mode: u32) -> Result<()> {
    make_parent(to)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(mode))?)
}

fn write(to: &Path, text: &str) -> Result<()> {
    make_parent(to)?;
    let mut file = fs::File::create(to)?;
    file.write_all(text.as_bytes())?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(0o644))?)
}

fn make_parent(path: &Path) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(())
}

fn said(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    must!(output.status.success(), "{name} failed");
    Ok(String::from_utf8(output.stdout)?)
}

fn run_command(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let status = command
        .status()
        .with_context(|| format!("cannot run {name}"))?;
    must!(status.success(), "{name} failed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_the_c_library_counts() {
        let program = b"xGLIBC_2.4\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0";
        assert_eq!(glibc(program).as_deref(), Some("2.34"));
        assert_eq!(glibc(b"static"), None);
    }
}
