//! Landlock around programs that are not ours: ports and scopes always, files where there is no mount namespace.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use super::spec::{Access, Jail, Network, Rung, What};
use crate::sys;

/// The newest version whose rights the `landlock` crate names; an older kernel enforces those it knows.
const NEWEST: ABI = ABI::V9;
/// From here on Landlock knows TCP ports.
const KNOWS_PORTS: u32 = 4;
/// From here on Landlock knows signals and abstract sockets.
const KNOWS_SCOPES: u32 = 6;

/// Restricts the calling process, and what it starts.
pub(super) fn lock(jail: &Jail) -> Result<String, String> {
    let version = sys::landlock_abi().ok_or("this kernel has no Landlock")?;
    match restrict(jail).map_err(|error| error.to_string())? {
        RulesetStatus::NotEnforced => {
            Err("the kernel accepted the rules but enforces none of them".to_owned())
        }
        _ if version < KNOWS_PORTS && jail.network != Network::Own => Err(format!(
            "version {version} knows no TCP ports: every port is open"
        )),
        _ if version < KNOWS_SCOPES && jail.rung == Rung::Reduced => Err(format!(
            "version {version} knows no scopes: signals and abstract sockets are open"
        )),
        _ => Ok(format!("version {version}: {}", coverage(jail))),
    }
}

fn coverage(jail: &Jail) -> String {
    let ports = match &jail.network {
        Network::Own => "no network outside the jail".to_owned(),
        Network::Host { ports: None, .. } => "every TCP port".to_owned(),
        Network::Host {
            ports: Some(ports), ..
        } => {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            format!("TCP to {}", ports.join(", "))
        }
    };
    format!("{ports}; no signals or abstract sockets outside")
}

fn restrict(jail: &Jail) -> Result<RulesetStatus, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .scope(Scope::from_all(NEWEST))?;
    if jail.rung == Rung::Reduced {
        rules = rules.handle_access(AccessFs::from_all(NEWEST))?;
    }
    let mut open = Vec::new();
    if let Network::Host { ports, listen } = &jail.network {
        if let Some(ports) = ports {
            rules = rules.handle_access(AccessNet::ConnectTcp)?;
            open.clone_from(ports);
        }
        if !listen {
            rules = rules.handle_access(AccessNet::BindTcp)?;
        }
    } else if jail.rung == Rung::Reduced {
        // Without a network of its own, none at all.
        rules = rules
            .handle_access(AccessNet::ConnectTcp)?
            .handle_access(AccessNet::BindTcp)?;
    }
    let mut rules = rules.create()?;
    for port in open {
        rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    if jail.rung == Rung::Reduced {
        for (path, rights) in files(jail) {
            // What is not there needs no rule: it is passed over.
            rules = rules.add_rules(path_beneath_rules([path], rights))?;
        }
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// What the view shows, as rights on the paths of the host.
fn files(jail: &Jail) -> Vec<(std::path::PathBuf, BitFlags<AccessFs>)> {
    let read = AccessFs::from_read(NEWEST);
    let mut files = vec![("/proc".into(), read & !AccessFs::Execute)];
    let masks: Vec<_> = jail
        .view
        .iter()
        .filter(|mount| mount.what == What::Mask)
        .map(|mount| &mount.target)
        .collect();
    // Landlock cannot take a part out of what it allows, so a directory with a mask inside stays closed.
    let shown = jail
        .view
        .iter()
        .filter(|mount| !masks.iter().any(|mask| mask.starts_with(&mount.target)));
    for mount in shown {
        match &mount.what {
            What::Bind { source, access, .. } => files.push((
                source.clone(),
                match access {
                    Access::ReadOnly => read,
                    Access::Writable => AccessFs::from_all(NEWEST) & !AccessFs::MakeBlock,
                    Access::Device => AccessFs::ReadFile | AccessFs::WriteFile,
                },
            )),
            // Links lead to places that are shown, or to a process's own descriptors.
            What::Link { .. } => {}
            What::Overlay { lower, .. } => files.push((lower.clone(), AccessFs::from_all(NEWEST))),
            What::Memory { .. } | What::File { .. } | What::Mask | What::Processes => {}
        }
    }
    files
}
