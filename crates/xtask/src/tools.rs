//! Third-party tools the checks need, at pinned versions, installed under `target/tools` when missing.
//!
//! Nothing is installed anywhere else, and nothing that is installed runs a script of its own.

pub(crate) mod process;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::say;

const NODE_VERSION: &str = "22.23.3";
const CONFORMANCE_VERSION: &str = "0.2.0-alpha.12";
/// A certified identity provider, for a gate that stands behind one.
const PROVIDER_VERSION: &str = "9.13.3";
const INSTALL_LIMIT: Duration = Duration::from_secs(300);

/// The installed conformance suite.
pub(crate) struct Suite {
    /// Where modules are found from.
    home: PathBuf,
    node: PathBuf,
    package: PathBuf,
}

impl Suite {
    /// Finds the suite, or installs it first.
    pub(crate) fn get() -> Result<Self> {
        let home = process::target()?.join("tools").join("conformance");
        let node_package = format!("node-linux-{}", node_architecture()?);
        let pins = json!({
            "private": true,
            "dependencies": {
                node_package.as_str(): NODE_VERSION,
                "@modelcontextprotocol/conformance": CONFORMANCE_VERSION,
                "oidc-provider": PROVIDER_VERSION,
            },
        });
        install(&home, &format!("{pins:#}\n"))?;
        let modules = home.join("node_modules");
        let suite = Self {
            node: modules.join(node_package).join("bin").join("node"),
            package: modules.join("@modelcontextprotocol").join("conformance"),
            home,
        };
        let home = &suite.home;
        ensure!(
            suite.node.is_file() && suite.package.is_dir(),
            "the suite is not in {}; delete it and retry",
            home.display()
        );
        Ok(suite)
    }

    /// A command that runs the suite with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.node);
        command
            .arg(self.package.join("dist").join("index.js"))
            .args(arguments);
        command
    }

    /// The same, with a module of ours loaded before it.
    pub(crate) fn command_after(&self, module: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.node);
        command
            .arg("--import")
            .arg(module)
            .arg(self.package.join("dist").join("index.js"))
            .args(arguments);
        command
    }

    /// A command that runs a script of ours with the suite's modules at hand.
    pub(crate) fn script(&self, name: &str, text: &str) -> Result<Command> {
        let mut command = Command::new(&self.node);
        command.arg(self.write(name, text)?);
        Ok(command)
    }

    /// Puts a script where it finds the suite's modules.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.home.join(name);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }

    /// The suite's own list of what a protocol revision requires.
    pub(crate) fn requirements(&self, revision: &str) -> Result<String> {
        let file = self
            .package
            .join("requirements")
            .join(format!("{revision}.yaml"));
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    }
}

/// Installs what `manifest` pins with npm, unless exactly that is there already.
fn install(home: &Path, manifest: &str) -> Result<()> {
    let done = home.join("installed.json");
    if fs::read_to_string(&done).is_ok_and(|installed| installed == manifest) {
        return Ok(());
    }
    say(format!(
        "installing the conformance suite {CONFORMANCE_VERSION} and Node {NODE_VERSION} (once)"
    ));
    fs::create_dir_all(home)?;
    fs::write(home.join("package.json"), manifest)?;
    let log = home.join("npm.log");
    let mut npm = Command::new("npm");
    npm.args([
        "install",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ])
    .current_dir(home);
    let status = process::run_bounded(&mut npm, &log, INSTALL_LIMIT).context(
        "npm is needed to install the conformance suite: install the packages nodejs and npm",
    )?;
    if !status.success() {
        bail!(
            "npm install failed:\n{}",
            fs::read_to_string(&log).unwrap_or_default()
        );
    }
    fs::write(done, manifest)?;
    Ok(())
}

fn node_architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("x64"),
        "aarch64" => Ok("arm64"),
        other => bail!("npm has no Node build for Linux on {other}"),
    }
}
