//! A volume against a model of it: a map from paths to contents and labels.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Write(usize, usize, u8),
    Create(usize, usize, u8),
    Delete(usize, bool),
    Move(usize, usize),
    Copy(usize, usize),
    Edit(usize, u8),
    Restart,
}

const PLACES: [&str; 8] = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/f", "g/h/i"];
const LEVELS: [Level; 4] = [
    Level::Public,
    Level::Internal,
    Level::Confidential,
    Level::Restricted,
];

fn step() -> impl Strategy<Value = Step> {
    let place = || 0..PLACES.len();
    prop_oneof![
        4 => (place(), 0..60_usize, 0..4_u8).prop_map(|(at, size, by)| Step::Write(at, size, by)),
        2 => (place(), 0..60_usize, 0..4_u8).prop_map(|(at, size, by)| Step::Create(at, size, by)),
        2 => (place(), any::<bool>()).prop_map(|(at, all)| Step::Delete(at, all)),
        2 => (place(), place()).prop_map(|(from, to)| Step::Move(from, to)),
        2 => (place(), place()).prop_map(|(from, to)| Step::Copy(from, to)),
        2 => (place(), 0..4_u8).prop_map(|(at, by)| Step::Edit(at, by)),
        1 => Just(Step::Restart),
    ]
}

/// What was written, and the least that reading it must bring.
type Model = BTreeMap<String, (String, Level)>;

fn is_dir(model: &Model, at: &str) -> bool {
    model
        .keys()
        .any(|known| known.starts_with(&format!("{at}/")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn quotas_stay_true_whatever_is_written_and_deleted(steps in prop::collection::vec(step(), 1..40)) {
        let root = tempfile::tempdir().unwrap();
        let rows: Arc<dyn LabelRows> = Arc::new(InMemory::default());
        let mut spec = spec(root.path());
        spec.max_bytes = Some(200 << 10);
        let attach = || Volume::attach(spec.clone(), Arc::clone(&rows)).unwrap();
        let mut volume = attach();
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Write(at, size, level) | Step::Create(at, size, level) => {
                    let create_only = matches!(step, Step::Create(..));
                    let (place, level) = (PLACES[at], LEVELS[usize::from(level)]);
                    let content = format!("{size}:").repeat(size * 40);
                    let options = WriteOptions { create_only, ..WriteOptions::default() };
                    if volume.write(by(&secret(level)), &path(place), content.as_bytes(), options).result.is_ok() {
                        prop_assert!(level <= Level::Confidential);
                        prop_assert!(!create_only || !model.contains_key(place));
                        model.insert(place.to_owned(), (content, level));
                    }
                }
                Step::Delete(at, recursive) => {
                    let options = DeleteOptions { recursive, ..DeleteOptions::default() };
                    if volume.delete(clean(), &path(PLACES[at]), options).result.is_ok() {
                        prop_assert!(recursive || !is_dir(&model, PLACES[at]));
                        let beneath = format!("{}/", PLACES[at]);
                        model.retain(|known, _| known != PLACES[at] && !known.starts_with(&beneath));
                    }
                }
                Step::Move(from, to) => {
                    let (from, to) = (PLACES[from], PLACES[to]);
                    if volume.rename(clean(), &path(from), &path(to), MoveOptions::default()).result.is_ok() {
                        let beneath = format!("{from}/");
                        let moved: Vec<String> = model.keys().filter(|known| *known == from || known.starts_with(&beneath)).cloned().collect();
                        for known in moved {
                            let file = model.remove(&known).unwrap();
                            model.insert(known.replacen(from, to, 1), file);
                        }
                    }
                }
                Step::Copy(from, to) => {
                    if volume.copy(clean(), &path(PLACES[from]), &path(PLACES[to]), true).result.is_ok() {
                        let file = model.get(PLACES[from]).cloned().unwrap();
                        model.insert(PLACES[to].to_owned(), file);
                    }
                }
                Step::Edit(at, level) => {
                    let label = secret(LEVELS[usize::from(level)]);
                    let edits = [Edit { replace_all: true, ..edit(":", ";") }];
                    if volume.edit(by(&label), &path(PLACES[at]), &edits, EditOptions::default()).result.is_ok() {
                        let file = model.get_mut(PLACES[at]).unwrap();
                        *file = (file.0.replace(':', ";"), file.1.max(LEVELS[usize::from(level)]));
                    }
                }
                Step::Restart => {
                    drop(volume);
                    volume = attach();
                }
            }
            for (at, (content, level)) in &model {
                let read = volume.read(clean(), &path(at), Part::Whole, As::Text);
                prop_assert!(read.label.mark.secrecy >= *level, "{at} is below its label");
                prop_assert_eq!(&text_of(read.result.unwrap()), content);
            }
            let counted = volume.used();
            prop_assert!(counted.bytes <= 200 << 10);
            volume.recount().unwrap();
            prop_assert_eq!(volume.used(), counted);
        }
    }
}
