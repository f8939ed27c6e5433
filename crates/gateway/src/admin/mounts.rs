//! Attaching volumes to callers, who then reach them as a file system.

use std::sync::{Arc, PoisonError};

use api::{Kind, Problem};

use super::Admin;
use crate::{
    Caller,
    mount::{Mount, Shared},
    problem,
};

/// Mounts at once: each has a port and connections.
const MOST: usize = 256;

impl Admin {
    /// From now on a caller reaches a volume over the NFS door.
    pub async fn attach_volume(
        &self,
        who: &Caller,
        name: &str,
        asked: &api::VolumeAttachment,
    ) -> Result<api::VolumeAttached, Problem> {
        let gate = Arc::clone(self.gate.inner());
        let caller = self.attached_to(&asked.caller)?;
        self.check_execution(&caller, asked.execution.as_deref())?;
        let set = Arc::clone(&gate.now().volumes);
        let held = set.named(name).cloned();
        let held = held.ok_or_else(|| no_volume(name))?;
        if !held.is_for(&caller) {
            let text = format!("volume `{name}` is not for `{}`", caller.name());
            return Err(problem::conflict("not_for_caller", text));
        }
        let path = match held.entry.tenant.as_deref() {
            Some(tenant) => format!("/{tenant}/{name}"),
            None => format!("/{name}"),
        };
        let looks = move || gate.volumes.with(&set, &held, |volume| volume.root_id());
        let root = self.gate.inner().readers.run(looks).await;
        let root = root
            .map_err(Problem::broken)?
            .map_err(|why| problem::conflict("volume_unusable", why))?;
        let detail = format!("as {path}");
        self.record("volume.attached", who, "", |change| {
            change.server = name;
            change.target = caller.id();
            change.execution = asked.execution.as_deref().unwrap_or_default();
            change.detail = &detail;
        })?;
        let mounts = &self.gate.inner().mounts;
        let mut mounts = mounts.lock().unwrap_or_else(PoisonError::into_inner);
        mounts.retain(|mount| !mount.exports().is_empty());
        let known = mounts
            .iter()
            .find(|mount| is_of(mount, &caller, asked.execution.as_deref()));
        let address = match known.cloned() {
            Some(shared) => {
                if !shared.add(name, path.clone(), root) {
                    let text = format!("volume `{name}` is attached to `{}`", caller.name());
                    return Err(problem::conflict("already_attached", text));
                }
                shared
                    .address()
                    .ok_or_else(|| Problem::broken("no address"))?
            }
            None if mounts.len() >= MOST => {
                let text = "there are as many mounts as there can be; detach something first";
                return Err(Problem::new(Kind::Busy, "too_many_mounts", text));
            }
            None => {
                let shared = Arc::new(Shared::new(&caller, asked.execution.as_deref()));
                shared.add(name, path.clone(), root);
                let mount = Mount::new(self.gate.clone(), caller, Arc::clone(&shared));
                let port = asked.port()?;
                let address = self.gate.program().open_mount(mount, port)?;
                shared.is_at(address);
                mounts.push(shared);
                address
            }
        };
        let port = address.port();
        Ok(api::VolumeAttached {
            address: address.to_string(),
            command: format!(
                "mount -t nfs -o nfsvers=3,proto=tcp,nolock,hard,port={port},mountport={port} {}:{path} DIRECTORY",
                address.ip()
            ),
            path,
        })
    }

    /// From now on the caller does not, and what has it mounted is told that its files are gone.
    pub fn detach_volume(
        &self,
        who: &Caller,
        name: &str,
        asked: &api::VolumeDetachment,
    ) -> Result<String, Problem> {
        let caller = self.attached_to(&asked.caller)?;
        let mounts = &self.gate.inner().mounts;
        let mut mounts = mounts.lock().unwrap_or_else(PoisonError::into_inner);
        let found = mounts
            .iter()
            .find(|mount| is_of(mount, &caller, asked.execution.as_deref()))
            .filter(|mount| mount.exports().iter().any(|export| export.volume == name));
        let found = found.ok_or_else(|| {
            let text = format!("volume `{name}` is not attached to `{}`", caller.name());
            Problem::new(Kind::NotFound, "not_attached", text)
        })?;
        self.record("volume.detached", who, "", |change| {
            change.server = name;
            change.target = caller.id();
            change.execution = asked.execution.as_deref().unwrap_or_default();
        })?;
        found.remove(name);
        mounts.retain(|mount| !mount.exports().is_empty());
        Ok(format!(
            "volume `{name}` is detached from `{}`",
            caller.name()
        ))
    }

    /// To whom a volume is attached, and where.
    pub(super) fn attachments(&self, name: &str) -> Vec<String> {
        let mounts = &self.gate.inner().mounts;
        let mounts = mounts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::new();
        for mount in mounts.iter() {
            let exports = mount.exports();
            let export = exports.iter().find(|export| export.volume == name);
            if let (Some(export), Some(address)) = (export, mount.address()) {
                let execution = mount.execution.as_ref();
                let execution = execution.map_or(String::new(), |id| format!(" in {id}"));
                all.push(format!(
                    "{}{execution} at {address}:{}",
                    mount.caller, export.path
                ));
            }
        }
        all
    }

    fn attached_to(&self, caller: &str) -> Result<Caller, Problem> {
        self.gate.find_caller(caller).ok_or_else(|| {
            let text = format!("there is no caller `{caller}`");
            Problem::new(Kind::NotFound, "no_such_caller", text)
        })
    }

    fn check_execution(&self, caller: &Caller, id: Option<&str>) -> Result<(), Problem> {
        let Some(id) = id else { return Ok(()) };
        let inner = self.gate.inner();
        let found = inner.executions.find(id);
        let found = found.filter(|execution| {
            execution.saved().caller == caller.id() && execution.is_in_force(inner.now_ms())
        });
        found.map(drop).ok_or_else(|| {
            let text = format!("`{}` has no execution `{id}` in force", caller.name());
            Problem::new(Kind::NotFound, "no_such_execution", text)
        })
    }
}

fn is_of(mount: &Shared, caller: &Caller, execution: Option<&str>) -> bool {
    mount.caller == caller.id() && mount.execution.as_deref() == execution
}

fn no_volume(name: &str) -> Problem {
    let text = format!("there is no volume `{name}`");
    Problem::new(Kind::NotFound, "no_such_volume", text)
}
