//! The one integration binary: the shipped programs, started as a user starts them, judged from outside.
//!
//! Nothing here reaches into the gate's code. Upstreams are the everything fixture, the hostile upstream and other
//! people's servers; clients are a plain JSON client and other people's SDKs.

#[cfg(test)]
mod adding;
#[cfg(all(test, feature = "campaign"))]
mod agents;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod bundle_watch;
#[cfg(test)]
mod canaries;
#[cfg(test)]
mod clients;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod configuration;
#[cfg(test)]
mod confinement;
#[cfg(test)]
mod contexts;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod door;
#[cfg(test)]
mod endings;
#[cfg(test)]
mod eras;
#[cfg(test)]
mod events;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod fair;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod holding;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod inspect;
#[cfg(test)]
mod journey;
#[cfg(test)]
mod lazy;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod live_settings;
#[cfg(test)]
mod oauth;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod outages;
#[cfg(test)]
mod output;
#[cfg(test)]
mod permissions;
#[cfg(test)]
mod policy_verbs;
#[cfg(test)]
mod preflight;
#[cfg(test)]
mod pty;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod reasons;
#[cfg(test)]
mod reconcile;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod rugpull;
#[cfg(test)]
mod seal;
#[cfg(test)]
mod sent;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod sharing;
#[cfg(test)]
mod support;
#[cfg(test)]
mod switched_off;
#[cfg(test)]
mod taint;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod unknown_ends;
#[cfg(test)]
mod verifying;
#[cfg(test)]
mod words;
#[cfg(test)]
mod worker_death;
