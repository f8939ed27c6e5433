//! Every word of a server passes one door: random servers, random words, random callers.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use callers::{Caller, Credential, CredentialSet, ForGate, Role, caller::Callers};
use policy::Permission;
use vocab::{Level, Mark, ServerId, View};
use wire::mcp::Era;

use super::support::{Bench, spec};
use crate::{
    Catalog, ListKind, Sight,
    catalog::Face,
    settings::{Access, ServerSpec, ToolRule},
    words::{Occasion, Withheld, absorb, label_of, mark_of},
};

const USERS: [&str; 3] = ["ann", "ben", "cat"];
const TENANTS: [Option<&str>; 3] = [None, Some("red"), Some("blue")];
const LEVELS: [Level; 4] = [
    Level::Public,
    Level::Internal,
    Level::Confidential,
    Level::Restricted,
];
const LISTS: [ListKind; 4] = [
    ListKind::Tools,
    ListKind::Prompts,
    ListKind::Resources,
    ListKind::Templates,
];

/// Numbers that are the same in every run (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % sides as u64).unwrap()
    }

    fn flip(&mut self) -> bool {
        self.roll(2) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }

    fn users(&mut self) -> Access {
        let users = USERS
            .iter()
            .filter(|_| self.flip())
            .map(|user| (*user).to_owned())
            .collect();
        Access {
            users,
            ..Access::default()
        }
    }

    /// A server of random level, kept for some or for nobody in particular.
    fn server(&mut self, number: usize) -> Arc<ServerSpec> {
        let mut spec = (*spec(&format!("s{number}"), Some(self.pick(&LEVELS)))).clone();
        spec.tenant = self.pick(&TENANTS).map(str::to_owned);
        spec.open_world = Some(self.flip());
        if self.flip() {
            spec.access = self.users();
        }
        if self.flip() {
            let permission = self.pick(&[
                Permission::Permitted,
                Permission::Restricted,
                Permission::Blocked,
            ]);
            spec.rules.insert(
                "n0".into(),
                ToolRule {
                    permission,
                    access: self.users(),
                    ..ToolRule::default()
                },
            );
        }
        Arc::new(spec)
    }

    fn caller(&mut self, number: usize) -> Credential {
        Credential {
            id: format!("c{number}"),
            name: format!("c{number}"),
            role: Role::Client,
            view: self.pick(&[View::Double, View::Flat, View::Raw]),
            grants: if self.flip() {
                vec!["s0__n0".into()]
            } else {
                Vec::new()
            },
            user: self.flip().then(|| self.pick(&USERS).to_owned()),
            departments: Vec::new(),
            agent: None,
            tenant: self.pick(&TENANTS).map(str::to_owned),
            context: None,
            digest: [u8::try_from(number).unwrap(); 32],
        }
    }

    /// What a server shows: at first words that are approved, `pin-sN`; later others, `new-sN`, other numbers and another order.
    fn face(&mut self, server: &ServerId, is_first: bool) -> Arc<Face> {
        let mut list = |key: &str, name: &dyn Fn(usize) -> String| {
            let mut items: Vec<String> = Vec::new();
            for number in 0..4 {
                let is_new = !is_first && self.roll(3) == 0;
                if is_first || self.roll(4) > 0 {
                    let word = if is_new { "new" } else { "pin" };
                    items.push(format!(
                        r#"{{"{key}":"{}","description":"{word}-{server}-{number}","_meta":{{"a":"{word}-{server}"}}}}"#,
                        name(number)
                    ));
                }
            }
            if !is_first && self.flip() {
                items.push(format!(
                    r#"{{"{key}":"{}","description":"new-{server}"}}"#,
                    name(9)
                ));
            }
            if !is_first && self.flip() {
                items.reverse();
            }
            items.join(",")
        };
        let tools = list("name", &|number| format!("n{number}"));
        let prompts = list("name", &|number| format!("p{number}"));
        let resources = list("uri", &|number| format!("r://{server}/{number}"));
        let templates = list("uriTemplate", &|number| format!("t{number}://{{x}}"));
        let word = if is_first || self.flip() {
            "pin"
        } else {
            "new"
        };
        let hello = format!(
            r#"{{"protocol":"2025-11-25","era":"legacy","instructions":"{word}-{server}","capabilities":{{"tools":{{"x":"new-{server}"}},"new-{server}":{{}},"tasks":{{"list":{{"x":"new-{server}"}}}}}}}}"#
        );
        let lists = format!(
            r#"{{"tools":[{tools}],"prompts":[{prompts}],"resources":[{resources}],"templates":[{templates}]}}"#
        );
        Arc::new(Face::read(&Bytes::from(hello), &Bytes::from(lists), None).unwrap())
    }
}

/// Who may use a server, in other words than the gate's.
fn may_use(credential: &Credential, spec: &ServerSpec) -> bool {
    let is_own = spec.tenant.is_none() || spec.tenant == credential.tenant;
    let names_nobody = spec.access.users.is_empty()
        && spec.access.departments.is_empty()
        && spec.access.agents.is_empty();
    is_own
        && (names_nobody
            || credential
                .user
                .as_ref()
                .is_some_and(|user| spec.access.users.contains(user)))
}

fn may_call_n0(credential: &Credential, spec: &ServerSpec) -> bool {
    let Some(rule) = spec.rules.get("n0") else {
        return true;
    };
    let is_named = credential
        .user
        .as_ref()
        .is_some_and(|user| rule.access.users.contains(user))
        || (spec.id.as_str() == "s0" && !credential.grants.is_empty());
    match rule.permission {
        Permission::Blocked => false,
        Permission::Restricted => is_named,
        Permission::Permitted => rule.access.users.is_empty() || is_named,
    }
}

/// A session's label, saved or not, as one of random history has it.
fn age(dice: &mut Dice, caller: &Caller, servers: &[Arc<ServerSpec>]) {
    for _ in 0..dice.roll(3) {
        let spec = &servers[dice.roll(servers.len())];
        let label = label_of(spec, spec.open_world == Some(true));
        drop(caller.session().absorb(&label));
    }
    if dice.roll(4) > 0
        && let Some(snapshot) = caller.session().unsaved()
    {
        caller.session().saved(&snapshot);
    }
}

/// The label that would be there after a crash.
fn durable(caller: &Caller) -> Mark {
    if caller.session().unsaved().is_some() {
        Mark::default()
    } else {
        caller.session().mark()
    }
}

struct Scene {
    servers: Vec<Arc<ServerSpec>>,
    catalog: Catalog,
}

impl Scene {
    fn spec(&self, text: &str, word: &str) -> Vec<&ServerSpec> {
        let named = self
            .servers
            .iter()
            .filter(|spec| text.contains(&format!("{word}-{}", spec.id)));
        named.map(|spec| &**spec).collect()
    }

    /// Nothing in a text is above the label or outside the access of who is shown it.
    fn check(&self, text: &str, credential: &Credential, label: Mark, kind: Option<ListKind>) {
        for spec in self.spec(text, "new") {
            assert!(
                may_use(credential, spec),
                "{credential:?} may not use {}: {text}",
                spec.id
            );
            assert_eq!(
                kind,
                Some(ListKind::Resources),
                "changed since it was approved: {text}"
            );
            let mark = mark_of(spec, spec.open_world == Some(true));
            assert_eq!(label.join(mark), label, "above the label: {text}");
        }
        for spec in self.spec(text, "pin") {
            assert!(
                may_use(credential, spec),
                "{credential:?} may not use {}: {text}",
                spec.id
            );
            let is_data = kind == Some(ListKind::Resources);
            assert!(
                !is_data || spec.classification.unwrap() <= label.secrecy,
                "a resource above the label: {text}"
            );
        }
    }

    fn shown(
        &self,
        sight: &Sight,
        mount: Option<&ServerId>,
        kind: ListKind,
    ) -> Vec<(String, String)> {
        let listed = self.catalog.listed(kind, mount, sight).into_iter();
        listed
            .map(|line| {
                (
                    line.server.to_string(),
                    String::from_utf8(line.raw.to_vec()).unwrap(),
                )
            })
            .collect()
    }

    /// All a caller is shown without calling anything.
    fn look(&self, caller: &Caller, credential: &Credential) -> Vec<(String, String)> {
        let label = durable(caller);
        let sight = Sight::of(caller, self.catalog.is_open());
        let mut seen = Vec::new();
        let mounts = self.servers.iter().map(|spec| Some(&spec.id)).chain([None]);
        for mount in mounts {
            for kind in LISTS {
                for (server, line) in self.shown(&sight, mount, kind) {
                    self.check(&line, credential, label, Some(kind));
                    let spec = self
                        .servers
                        .iter()
                        .find(|spec| spec.id.as_str() == server)
                        .unwrap();
                    let is_n0 = kind == ListKind::Tools && line.contains("n0\"");
                    assert!(
                        !is_n0 || may_call_n0(credential, spec),
                        "{credential:?}: {line}"
                    );
                    seen.push((server, line));
                }
            }
            if let Some(mount) = mount {
                let text = self.catalog.instructions(mount, &sight).unwrap_or_default();
                self.check(text, credential, label, None);
                seen.push((mount.to_string(), text.to_owned()));
            }
            for era in [Era::Legacy, Era::Modern] {
                let text =
                    String::from_utf8(self.catalog.capabilities(mount, era, &sight).to_vec())
                        .unwrap();
                assert!(!text.contains("new-") && !text.contains("pin-"), "{text}");
                seen.push((mount.map(ToString::to_string).unwrap_or_default(), text));
            }
        }
        seen
    }
}

/// Words outside of lists, on every occasion.
fn hear(dice: &mut Dice, caller: &Caller, credential: &Credential, spec: &ServerSpec) {
    let label = label_of(spec, spec.open_world == Some(true));
    let before = caller.session().label();
    let step = flow::Step::new("call", caller.session());
    let occasion = match dice.roll(3) {
        0 => Occasion::Call(&step),
        1 => Occasion::Awaited,
        _ => Occasion::Unasked,
    };
    let may_call = dice.flip();
    let heard = absorb(caller, spec, &label, occasion, || may_call);
    let after = caller.session().label();
    match heard {
        Ok(absorbed) => {
            assert!(may_use(credential, spec), "{credential:?} {spec:?}");
            assert!(matches!(occasion, Occasion::Call(_)) || may_call);
            assert_eq!(
                after.mark.join(label.mark),
                after.mark,
                "shown above the label"
            );
            if matches!(occasion, Occasion::Unasked) {
                assert_eq!(after, before, "a server raised a label by talking");
            }
            let version = caller.session().unsaved();
            assert_eq!(
                absorbed.durable().is_ok(),
                version.is_none(),
                "shown before the label was saved"
            );
        }
        Err(withheld) => {
            assert_eq!(after, before, "withheld and yet raised");
            assert!(
                withheld == Withheld::WouldRaise || !may_use(credential, spec) || !may_call,
                "{withheld:?}"
            );
        }
    }
}

#[test]
fn nothing_above_a_label_or_outside_access_is_shown_in_ten_thousand_scenes() {
    let mut live_resources = 0;
    let mut scenes = 0;
    for seed in 0.. {
        let mut dice = Dice(seed);
        let servers: Vec<_> = (0..=dice.roll(3))
            .map(|number| dice.server(number))
            .collect();
        let bench = Bench::new();
        let first: Vec<_> = servers
            .iter()
            .map(|spec| (Arc::clone(spec), Some(dice.face(&spec.id, true))))
            .collect();
        bench.build(&first);
        let later: Vec<_> = servers
            .iter()
            .map(|spec| (Arc::clone(spec), Some(dice.face(&spec.id, false))))
            .collect();
        let scene = Scene {
            catalog: bench.build(&later),
            servers,
        };
        // What is left out and turned round, and nothing else: those above whose label a server is see no difference.
        let thinned = Scene {
            catalog: bench.build(&thin(&mut dice, &later)),
            servers: scene.servers.clone(),
        };
        // Files are slow, so each world is looked at by many.
        for _ in 0..100 {
            let credential = dice.caller(1);
            let callers = Callers::new(Vec::new(), [0; 32]);
            let known = callers.prepare(&CredentialSet::default(), vec![credential.clone()]);
            let caller = callers.all(&known).remove(0);
            age(&mut dice, &caller, &scene.servers);
            let (seen, other) = (
                scene.look(&caller, &credential),
                thinned.look(&caller, &credential),
            );
            let label = durable(&caller);
            for spec in &scene.servers {
                let mark = mark_of(spec, spec.open_world == Some(true));
                if mark.secrecy > label.secrecy {
                    let of = |seen: &[(String, String)]| -> Vec<String> {
                        seen.iter()
                            .filter(|(server, _)| server == spec.id.as_str())
                            .map(|(_, text)| text.clone())
                            .collect()
                    };
                    assert_eq!(
                        of(&seen),
                        of(&other),
                        "what {} leaves out is told to those below it",
                        spec.id
                    );
                }
            }
            live_resources += usize::from(seen.iter().any(|(_, text)| text.contains("new-")));
            for _ in 0..4 {
                let spec = Arc::clone(&scene.servers[dice.roll(scene.servers.len())]);
                hear(&mut dice, &caller, &credential, &spec);
            }
            scenes += 1;
        }
        if scenes >= super::support::scenes() {
            break;
        }
    }
    assert!(
        live_resources > 100,
        "the scenes show nothing that could be wrong: {live_resources}"
    );
}

/// The same faces with some lines missing and in another order.
fn thin(
    dice: &mut Dice,
    servers: &[(Arc<ServerSpec>, Option<Arc<Face>>)],
) -> Vec<(Arc<ServerSpec>, Option<Arc<Face>>)> {
    let thinned = servers.iter().map(|(spec, face)| {
        let mut face = face.as_deref().unwrap().clone();
        for items in [
            &mut face.tools,
            &mut face.prompts,
            &mut face.resources,
            &mut face.templates,
        ] {
            let keep: BTreeSet<usize> = (0..items.len()).filter(|_| dice.flip()).collect();
            let mut number = 0;
            items.retain(|_| {
                number += 1;
                keep.contains(&(number - 1))
            });
            items.reverse();
        }
        (Arc::clone(spec), Some(Arc::new(face)))
    });
    thinned.collect()
}
