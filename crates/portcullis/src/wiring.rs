//! From files to a gate: the configuration, the credentials and the keys, each lowered to what the crate that uses it wants.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use gateway::{
    Credential, DoorSettings, Pins,
    settings::{
        self, Proofs, Rules, ServerSpec, Settings, Signing, Standing, TargetSpec, Terms, Vault,
        WorkerSettings,
    },
};
use policy::{Budget, Influence, Permission};
use secrets::{Resolver, SecretRef, Store as _};
use state::State;
use vocab::Redacted;

use crate::{
    accounts,
    config::{self, Resolved},
    contexts,
    home::Home,
    policies, private_file, providers,
    tokens::{self, Tokens},
};

/// No call may take longer than this, whatever its server's entry says.
const LONGEST_CALL: Duration = Duration::from_secs(3600);

/// The worker lies beside this program; nothing else is ever run in its place.
const WORKER: &str = "portcullis-worker";

/// What the gate is told, from what the files say, and what it keeps.
pub(crate) fn settings(
    home: &Home,
    resolved: &Resolved,
    state: State,
    signing: Signing,
    proofs: Proofs,
) -> Result<Settings, String> {
    Ok(Settings {
        terms: terms(resolved),
        worker: worker(resolved)?,
        servers: servers(resolved),
        snapshots: home.state.join("catalog"),
        wrapper_key: wrapper_key(&home.state.join("seal.key"))
            .map_err(|error| format!("cannot use the sealing key: {error}"))?,
        vault: vault(home),
        accounts: accounts(home),
        rules: rules(resolved)?,
        state,
        pins: Pins::open(home.lock_file())?,
        signing,
        proofs,
    })
}

/// What requests and calls are held to.
pub(crate) fn terms(resolved: &Resolved) -> Terms {
    let limits = &resolved.limits;
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    Terms {
        door: Arc::new(DoorSettings {
            name: "portcullis",
            version: env!("CARGO_PKG_VERSION"),
            max_body_bytes: bytes(limits.max_body_bytes),
            max_depth: limits.max_depth,
            max_header_bytes: bytes(limits.max_header_bytes),
            max_sessions: limits.max_sessions,
            allowed_origins: resolved.allowed_origins.clone(),
            allowed_hosts: Vec::new(),
            requires_credential: resolved.authentication == config::Authentication::Bearer,
            write_timeout: limits.write_timeout,
            question_timeout: limits.question_timeout,
            descriptors: usize::try_from(sandbox::descriptors::most()).unwrap_or(usize::MAX),
        }),
        ceiling: Budget {
            time: LONGEST_CALL,
            result_bytes: bytes(limits.max_result_bytes),
        },
        max_concurrent_calls: limits.max_concurrent_calls,
        max_calls_per_caller: limits.max_concurrent_calls_per_caller,
        attempts: resolved.retry.attempts,
    }
}

/// The largest result that a worker started with this configuration can deliver.
pub(crate) fn worker_result_bytes(resolved: &Resolved) -> usize {
    usize::try_from(resolved.limits.max_result_bytes)
        .unwrap_or(usize::MAX)
        .max(4 << 20)
}

/// The worker that talks to servers.
fn worker(resolved: &Resolved) -> Result<WorkerSettings, String> {
    worker_of("aggregator", worker_result_bytes(resolved), resolved)
}

/// The worker that sends for sinks. A batch of events is never larger than this.
pub(crate) fn courier(resolved: &Resolved) -> Result<WorkerSettings, String> {
    worker_of("courier", 32 << 20, resolved)
}

fn worker_of(
    role: &str,
    total_bytes: usize,
    resolved: &Resolved,
) -> Result<WorkerSettings, String> {
    let own = std::env::current_exe()
        .map_err(|error| format!("cannot find this program's own file: {error}"))?;
    let program = own.with_file_name(WORKER);
    if !program.is_file() {
        return Err(format!(
            "{} is missing; build it with `cargo build --release` or install both programs",
            program.display()
        ));
    }
    let mut args = vec![
        "--role".to_owned(),
        role.to_owned(),
        "--total-bytes".to_owned(),
        total_bytes.to_string(),
    ];
    for file in &resolved.trust.ca_files {
        args.extend(["--ca-file".to_owned(), file.to_string_lossy().into_owned()]);
    }
    // A little more than one answer, for what wraps it.
    Ok(WorkerSettings {
        program,
        args,
        path: std::env::var("PATH").unwrap_or_default(),
        total_bytes: total_bytes + (1 << 20),
    })
}

/// Resolves references at the moment they are spent, so a secret stored later is found without a restart.
pub(crate) fn vault(home: &Home) -> Vault {
    let resolver = Resolver::new(
        std::env::vars(),
        secrets::Vault::in_home(home.vault(), secrets::os_entropy()),
    );
    Arc::new(move |reference| {
        let reference = SecretRef::parse(reference).map_err(|error| error.to_string())?;
        let lease = resolver
            .lease(&reference)
            .map_err(|error| error.to_string())?;
        Ok(Redacted::new(lease.expose().to_owned()))
    })
}

/// A user's own token for a server. Looked up for every call, so an account that was connected or removed counts at once.
fn accounts(home: &Home) -> settings::Accounts {
    let vault = secrets::Vault::in_home(home.vault(), secrets::os_entropy());
    Arc::new(move |server, user| {
        let Some(name) = accounts::name(server, user) else {
            return Ok(None);
        };
        let token = vault.get(&name).map_err(|error| error.to_string())?;
        Ok(token.map(|token| Redacted::new(token.expose().to_owned())))
    })
}

/// What decides besides the servers' own entries. A bad bundle is an error here, so that nothing changes.
pub(crate) fn rules(resolved: &Resolved) -> Result<Rules, String> {
    Ok(Rules {
        bundle: Arc::new(policies::load(&resolved.bundle).map_err(|error| error.to_string())?),
        untrusted_influence: match resolved.untrusted_influence {
            config::Influence::Off => Influence::Off,
            config::Influence::Ask => Influence::Ask,
            config::Influence::Block => Influence::Block,
        },
        approvals: settings::ApprovalSettings {
            expiry: resolved.approvals.expiry,
            in_client: resolved.approvals.in_client,
        },
        contexts: Arc::new(contexts::load(resolved).map_err(|findings| mistakes(&findings))?),
        oauth: providers::oauth(resolved.oauth.as_ref())?.map(Arc::new),
    })
}

fn mistakes(findings: &[config::Finding]) -> String {
    findings
        .iter()
        .map(|finding| format!("{}; {}", finding.what, finding.fix))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The key that seals what clients carry for us: kept, so that a restart does not void it.
fn wrapper_key(file: &Path) -> io::Result<[u8; 32]> {
    match fs::read(file) {
        Ok(bytes) => <[u8; 32]>::try_from(bytes)
            .map_err(|_| io::Error::other(format!("{} is damaged; delete it", file.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut key = [0; 32];
            getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
            private_file::create(file, &key)?;
            Ok(key)
        }
        Err(error) => Err(error),
    }
}

/// The credentials that are in force.
pub(crate) fn credentials(home: &Home) -> Result<Vec<Credential>, tokens::TokenError> {
    let tokens = Tokens::load(&home.tokens_file())?;
    let live = tokens
        .list()
        .iter()
        .filter(|credential| !credential.revoked);
    Ok(live
        .map(|credential| Credential {
            id: credential.id.clone(),
            name: credential.name.clone(),
            role: credential.role,
            view: credential.view,
            grants: credential.grants.clone(),
            user: credential.user.clone(),
            departments: credential.departments.clone(),
            agent: credential.agent.clone(),
            tenant: credential.tenant.clone(),
            context: credential.context.clone(),
            digest: credential.digest(),
        })
        .collect())
}

pub(crate) fn servers(resolved: &Resolved) -> Vec<ServerSpec> {
    resolved.servers.iter().map(server).collect()
}

fn server(entry: &config::ServerEntry) -> ServerSpec {
    let target = TargetSpec {
        id: entry.id.clone(),
        classification: entry.classification,
        blocked: entry.blocked.clone(),
        standing: match &entry.state {
            config::State::Enabled => Standing::Enabled,
            config::State::Disabled => Standing::Disabled,
            config::State::Skipped(reason) => Standing::Skipped(reason.clone()),
        },
        budget: Budget {
            time: entry.timeout,
            result_bytes: usize::try_from(entry.max_result_bytes).unwrap_or(usize::MAX),
        },
        access: access(&entry.access),
        rate: entry.rate.map(rate),
        default_rule: rule(&entry.tools.default),
        rules: entry
            .tools
            .listed
            .iter()
            .map(|(tool, own)| (tool.clone(), rule(own)))
            .collect(),
        injection_scan: entry.injection_scan,
        redact_results: entry.redact_results,
        tenant: entry.tenant.clone(),
    };
    ServerSpec {
        target: Arc::new(target),
        transport: transport(&entry.transport),
        open_world: entry.open_world,
        new_definitions: arrivals(entry.definitions.new),
        narrowed_definitions: arrivals(entry.definitions.narrowed),
        recheck: entry.definitions.recheck,
        health: match entry.health {
            config::Health::Off => None,
            config::Health::Every {
                interval,
                timeout,
                method,
            } => Some(settings::Health {
                interval,
                timeout,
                method: match method {
                    config::HealthMethod::Ping => settings::HealthMethod::Ping,
                    config::HealthMethod::ToolsList => settings::HealthMethod::ListTools,
                },
            }),
        },
        allow: settings::Allow {
            sampling: entry.allow.sampling,
            roots: entry.allow.roots,
            elicitation: entry.allow.elicitation,
        },
        capabilities: entry
            .capabilities
            .iter()
            .map(|capability| capability.name.clone())
            .collect(),
    }
}

fn access(access: &config::Access) -> settings::Access {
    settings::Access {
        users: access.users.clone(),
        departments: access.departments.clone(),
        agents: access.agents.clone(),
    }
}

fn rate(rate: config::Rate) -> settings::Rate {
    settings::Rate {
        calls: rate.calls,
        per: rate.per,
    }
}

fn arrivals(arrivals: config::Arrivals) -> settings::Arrivals {
    match arrivals {
        config::Arrivals::Quarantine => settings::Arrivals::Quarantine,
        config::Arrivals::Accept => settings::Arrivals::Accept,
    }
}

fn rule(rule: &config::ToolRule) -> settings::ToolRule {
    settings::ToolRule {
        permission: match rule.permission {
            // A rule that lists anyone is for those it lists.
            config::Permission::Permitted if rule.access.lists_nobody() => Permission::Permitted,
            config::Permission::Permitted | config::Permission::Restricted => {
                Permission::Restricted
            }
            config::Permission::Blocked => Permission::Blocked,
        },
        access: access(&rule.access),
        rate: rule.rate.map(self::rate),
        effect: rule.effect,
        requires_user_auth: rule.requires_user_auth,
    }
}

fn transport(transport: &config::Transport) -> settings::Transport {
    let text = |text: &config::Text| match text {
        config::Text::Literal(value) => settings::Text::Literal(value.clone()),
        config::Text::Reference(reference) => settings::Text::Secret(reference.to_string()),
    };
    match transport {
        config::Transport::Stdio(stdio) => settings::Transport::Stdio {
            command: stdio.command.clone(),
            args: stdio.args.clone(),
            env: stdio
                .env
                .iter()
                .map(|(name, value)| (name.clone(), text(value)))
                .collect(),
            cwd: stdio.cwd.clone(),
        },
        config::Transport::Http(http) => settings::Transport::Http {
            url: http.url.clone(),
            kind: match http.kind {
                config::HttpKind::Auto => settings::HttpKind::Auto,
                config::HttpKind::StreamableHttp => settings::HttpKind::Streamable,
                config::HttpKind::Sse => settings::HttpKind::Sse,
            },
            headers: http
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), text(value)))
                .collect(),
            bearer: http
                .bearer
                .as_ref()
                .map(|reference| settings::Text::Secret(reference.to_string())),
        },
        config::Transport::Missing => settings::Transport::Nothing,
    }
}
