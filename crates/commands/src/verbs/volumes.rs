//! `volume`: what an operator sees and does on volumes, carried to the gate.

use std::{fs, io::Read as _};

use api::ask;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use home::Home;
use terminal::{
    Exit, Screen, Trouble,
    style::{Cell, Style, cell, table, tame},
};

use crate::{args, line::Line};

pub fn run(verb: &args::Volume, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    use args::Volume;
    let mut line = Line::as_operator(home)?;
    match verb {
        Volume::List => {
            let volumes = line.ask(ask::Volumes)?;
            let text = list(&volumes, screen.style);
            screen.show(&volumes, &text)?;
        }
        Volume::Show(args) => {
            let volumes = line.ask(ask::Volumes)?;
            let volume = volumes.iter().find(|volume| volume.name == args.name);
            let volume = volume
                .ok_or_else(|| Trouble::failed(format!("there is no volume `{}`", args.name)))?;
            screen.show(volume, &one(volume))?;
        }
        Volume::Ls(args) => {
            let path = args.path.clone().unwrap_or_default();
            let entries =
                line.ask_for(ask::VolumeEntries, &args.name, &api::VolumePlace { path })?;
            let text = listing(&entries, screen.style);
            screen.show(&entries, &text)?;
        }
        Volume::Cat(args) => {
            let path = args.path.clone();
            let file = line.ask_for(ask::VolumeContent, &args.name, &api::VolumePlace { path })?;
            let bytes = STANDARD.decode(&file.content).map_err(Trouble::failed)?;
            screen.out.write_all(&bytes)?;
        }
        Volume::Put(args) => {
            let content = match &args.from {
                Some(from) => fs::read(from)
                    .map_err(|error| Trouble::failed(format!("{}: {error}", from.display())))?,
                None => {
                    let mut content = Vec::new();
                    std::io::stdin().lock().read_to_end(&mut content)?;
                    content
                }
            };
            let file = api::VolumeFile {
                path: args.path.clone(),
                content: STANDARD.encode(content),
            };
            let done = line.ask_for(ask::PutOnVolume, &args.name, &file)?;
            say(&done, screen)?;
        }
        Volume::Rm(args) => {
            let removal = api::VolumeRemoval {
                path: args.path.clone(),
                recursive: args.recursive,
            };
            let done = line.ask_for(ask::RemoveFromVolume, &args.name, &removal)?;
            say(&done, screen)?;
        }
        Volume::Label(args) => {
            let label = api::VolumeLabel {
                path: args.path.clone(),
                level: args.level.to_string(),
                untrusted: args.untrusted,
            };
            let done = line.ask_for(ask::LabelOnVolume, &args.name, &label)?;
            say(&done, screen)?;
        }
        Volume::Attach(args) => {
            let asked = api::VolumeAttachment {
                caller: args.caller.clone(),
                execution: args.execution.clone(),
                port: args.port.map(u32::from),
            };
            let attached = line.ask_for(ask::AttachVolume, &args.name, &asked)?;
            let text = format!(
                "{} is at {}:{}. Every program on this machine that reaches the port uses it as `{}`.\n  {}\n",
                args.name,
                attached.address,
                attached.path,
                tame(&args.caller),
                attached.command
            );
            screen.show(&attached, &text)?;
        }
        Volume::Detach(args) => {
            let asked = api::VolumeDetachment {
                caller: args.caller.clone(),
                execution: args.execution.clone(),
            };
            let done = line.ask_for(ask::DetachVolume, &args.name, &asked)?;
            say(&done, screen)?;
        }
    }
    Ok(Exit::Done)
}

fn say(done: &api::Done, screen: &mut Screen<'_>) -> Result<(), Trouble> {
    let mut text = tame(&done.detail);
    text.push('\n');
    screen.show(done, &text)?;
    Ok(())
}

fn list(volumes: &[api::Volume], style: Style) -> String {
    if volumes.is_empty() {
        return "There are no volumes. Declare one under `volumes:` in portcullis.yaml.\n"
            .to_owned();
    }
    let row = |volume: &api::Volume| {
        let texts = [
            volume.name.clone(),
            volume.mount.clone(),
            volume.classification.clone(),
            if volume.writable { "yes" } else { "no" }.to_owned(),
            volume.used_bytes.to_string(),
            volume.used_files.to_string(),
            volume.error.clone().unwrap_or_default(),
        ];
        texts.into_iter().map(cell).collect()
    };
    let rows: Vec<Vec<Cell>> = volumes.iter().map(row).collect();
    let head = [
        "NAME",
        "MOUNT",
        "CLASSIFICATION",
        "WRITABLE",
        "BYTES",
        "FILES",
        "",
    ];
    table(&head, &rows, style)
}

fn one(volume: &api::Volume) -> String {
    let limit = |limit: Option<u64>| limit.map_or("no limit".to_owned(), |limit| limit.to_string());
    let mut out = format!(
        "{}\n  mount           {}\n  directory       {}\n  classification  {}\n  floor           {}\n  writable        {}\n  bytes           {} of {}\n  files           {} of {}\n",
        volume.name,
        volume.mount,
        tame(&volume.root),
        volume.classification,
        volume.floor,
        if volume.writable { "yes" } else { "no" },
        volume.used_bytes,
        limit(volume.max_bytes),
        volume.used_files,
        limit(volume.max_files),
    );
    for attached in &volume.attached {
        out.push_str(&format!("  attached        {}\n", tame(attached)));
    }
    if let Some(error) = &volume.error {
        out.push_str(&format!("  error           {}\n", tame(error)));
    }
    out
}

fn listing(entries: &[api::VolumeEntry], style: Style) -> String {
    let row = |entry: &api::VolumeEntry| {
        let name = match entry.kind.as_str() {
            "directory" => format!("{}/", entry.name),
            _ => entry.name.clone(),
        };
        let texts = [name, entry.size_bytes.to_string(), entry.label.clone()];
        texts.into_iter().map(cell).collect()
    };
    let rows: Vec<Vec<Cell>> = entries.iter().map(row).collect();
    table(&["NAME", "BYTES", "LABEL"], &rows, style)
}
