//! A volume that a path leads to is for the caller, and no path to one climbs. Holds for every caller, with a context or without.

use vocab::{Rule, Violation};
use wire::write::Object;

use crate::{
    Facts,
    context::{PathProblem, path_names},
};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for place in facts.on_volumes {
        if let Err(PathProblem::Climbs(violation)) = path_names(place.path) {
            return Err(*violation);
        }
        if let Some((volume, false)) = place.volume {
            return Err(not_for(volume, place.path));
        }
    }
    Ok(())
}

fn not_for(volume: &str, path: &str) -> Violation {
    let detail = format!(
        "volume `{volume}` lists who may use it, and the caller is not on the list; `access` of the volume would name it"
    );
    let mut payload = Object::new();
    payload.str("path", path).str("volume", volume);
    Violation::new(Rule::UnauthorizedVolumeAccess, detail)
        .with_payload(String::from_utf8(payload.finish()).unwrap_or_default())
}
