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
    let version = sys::landlock_abi();
    let missing = missing(version, jail.rung, &jail.network);
    let Some(version) = version else {
        return missing.map_or_else(|| Ok("not needed".to_owned()), Err);
    };
    match restrict(jail).map_err(|error| error.to_string())? {
        RulesetStatus::NotEnforced => {
            Err("the kernel accepted the rules but enforces none of them".to_owned())
        }
        _ => match missing {
            Some(missing) => Err(missing),
            None => Ok(format!("version {version}: {}", coverage(jail))),
        },
    }
}

/// What this version of Landlock leaves open, where nothing else closes it: a network of its own has no ports or abstract sockets of
/// others, and a process namespace no processes of others.
pub(super) fn missing(version: Option<u32>, rung: Rung, network: &Network) -> Option<String> {
    let name = version.map_or_else(
        || "this kernel has no Landlock".to_owned(),
        |version| format!("Landlock version {version} is old"),
    );
    let knows = |since| version.is_some_and(|version| version >= since);
    let is_shared = *network != Network::Own || rung == Rung::Reduced;
    let mut open = Vec::new();
    if rung == Rung::Reduced && version.is_none() {
        open.push("every file of the user");
    }
    if is_shared && !knows(KNOWS_PORTS) {
        open.push("every TCP port");
    }
    if is_shared && !knows(KNOWS_SCOPES) {
        open.push("abstract unix sockets of the host");
    }
    if rung == Rung::Reduced && !knows(KNOWS_SCOPES) {
        open.push("signals to processes of the user");
    }
    (!open.is_empty()).then(|| format!("{name}, which leaves open: {}", open.join(", ")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_old_kernel_leaves_open_is_said() {
        let shared = Network::Host {
            ports: Some(vec![443]),
            listen: false,
        };
        let names = [
            "every TCP port",
            "abstract unix sockets",
            "signals to processes",
            "every file",
        ];
        for (version, rung, network, open) in [
            (Some(7), Rung::Namespaces, &shared, [false; 4]),
            (
                Some(5),
                Rung::Namespaces,
                &shared,
                [false, true, false, false],
            ),
            (
                Some(3),
                Rung::Namespaces,
                &shared,
                [true, true, false, false],
            ),
            (None, Rung::Namespaces, &shared, [true, true, false, false]),
            (None, Rung::Namespaces, &Network::Own, [false; 4]),
            (Some(7), Rung::Reduced, &shared, [false; 4]),
            (
                Some(5),
                Rung::Reduced,
                &Network::Own,
                [false, true, true, false],
            ),
            (None, Rung::Reduced, &shared, [true; 4]),
        ] {
            let missing = missing(version, rung, network).unwrap_or_default();
            assert_eq!(
                names.map(|name| missing.contains(name)),
                open,
                "{version:?} {rung:?} {network:?}: {missing}"
            );
        }
    }
}
