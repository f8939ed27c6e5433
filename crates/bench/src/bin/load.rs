//! `bench-load http|signed|stdio|unread|first`: loads one thing for a fixed time and prints what it measured as one line of JSON.

use std::{io::Write as _, time::Duration};

use anyhow::{Context, Result, bail};
use bench::{
    load::{self, Plan},
    options::Options,
    pipe, signed, start,
    template::{Address, Era},
    texts::Text,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let verb = arguments.next().unwrap_or_default();
    let options = Options::parse(arguments)?;
    let text = match verb.as_str() {
        "http" => serde_json::to_string(&load::http(address(&options)?, plan(&options)?).await?)?,
        "signed" => {
            let context = options.get("context").unwrap_or("bench").to_owned();
            serde_json::to_string(
                &signed::http(address(&options)?, &context, plan(&options)?).await?,
            )?
        }
        "unread" => {
            serde_json::to_string(&load::unread(address(&options)?, plan(&options)?).await?)?
        }
        "stdio" => serde_json::to_string(&pipe::run(&options.rest, plan(&options)?).await?)?,
        "first" => {
            let took = start::first_call(&options.rest, &address(&options)?).await?;
            format!("{{\"milliseconds\":{:.1}}}", took.as_secs_f64() * 1e3)
        }
        _ => bail!(
            "usage: bench-load http|signed|unread --url URL … | bench-load stdio … -- COMMAND | bench-load first --url URL -- COMMAND"
        ),
    };
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}

fn address(options: &Options) -> Result<Address> {
    let era = match options.get("era").unwrap_or("legacy") {
        "legacy" => Era::Legacy,
        "modern" => Era::Modern,
        other => bail!("--era cannot be `{other}`"),
    };
    let text = Text::named(options.get("text").unwrap_or("prose"))?;
    let address = Address::new(
        options.need("url")?,
        options.get("bearer"),
        options.get("tool").unwrap_or("echo"),
        era,
    )?;
    let fill = options
        .get("fill")
        .map(|bytes| {
            bytes
                .parse()
                .with_context(|| format!("--fill cannot be `{bytes}`"))
        })
        .transpose()?;
    Ok(Address {
        text,
        fill,
        ..address
    })
}

fn plan(options: &Options) -> Result<Plan> {
    let seconds = |name: &str, default: f64| {
        Ok::<_, anyhow::Error>(Duration::from_secs_f64(options.read(name, default)?))
    };
    let pids = options
        .get("pids")
        .unwrap_or_default()
        .split(',')
        .filter(|pid| !pid.is_empty());
    Ok(Plan {
        connections: options.read("connections", 1)?,
        size: options.read("size", 100)?,
        warm_up: seconds("warm-up", 0.2)?,
        measure: seconds("measure", 1.0)?,
        pids: pids
            .map(|pid| {
                pid.parse()
                    .with_context(|| format!("--pids cannot hold `{pid}`"))
            })
            .collect::<Result<_>>()?,
    })
}
