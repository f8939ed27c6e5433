//! The window in which no proof of possession counts twice.

use std::sync::Arc;

use gateway::{PROOF_WINDOW, settings::Proofs};
use identity::Bounds;

use home::{Home, replay_file::ReplayFile};

/// The proofs that were spent, of earlier runs too.
pub(crate) fn proofs(home: &Home, boot: &str, now_ms: u64) -> Result<Proofs, String> {
    let path = home.state.join("proofs.log");
    let bounds = Bounds {
        window_seconds: PROOF_WINDOW.seconds(),
        ..Bounds::default()
    };
    let restored = ReplayFile::restore(path.clone(), bounds, boot, now_ms);
    let (file, replay) =
        restored.map_err(|error| format!("cannot use {}: {error}", path.display()))?;
    Ok(Proofs {
        replay: Arc::new(replay),
        tidy: Box::new(move |replay| file.tidy(replay)),
    })
}
