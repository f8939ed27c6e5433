//! Questions to the index of the ledger, answered with the ledger's own records.

use std::path::Path;

use audit::{Filter, Record};
pub use state::index::{Found, Query};
use state::index::{Index, IndexError};

/// Rows that the index had lost; it was made anew, so nothing is missing from the answer.
pub type Lost = u64;

/// The records that match, and how many rows the index had lost.
pub async fn find(index: &Path, ledger: &Path, query: &Query) -> Result<(Found, Lost), IndexError> {
    let mut index = Index::open(index, ledger).await?;
    let lost = index.catch_up().await?.lost;
    Ok((index.find(query).await?, lost))
}

/// Holds the index against the ledger and mends it: what was wrong with it, in words, where something was.
pub async fn compare_index(file: &Path, ledger: &Path) -> Option<String> {
    let mended = async {
        let mut index = Index::open(file, ledger).await?;
        let found = index.compare().await?;
        if found.any() {
            index.begin_again().await?;
        }
        Ok::<_, IndexError>(found)
    };
    match mended.await {
        Ok(found) if !found.any() => None,
        Ok(found) => Some(format!(
            "the index {} did not agree with the ledger: {} rows missing, {} altered, {} of no record. It was made anew; answers of \
             `audit query` before may have been incomplete",
            file.display(),
            found.missing,
            found.altered,
            found.foreign
        )),
        Err(error) => Some(error.to_string()),
    }
}

/// All records of a call and the changes of its approval, in order.
pub async fn story(index: &Path, ledger: &Path, call: &str) -> Result<Vec<Record>, IndexError> {
    const MOST: u32 = 1_000;
    let by_call = Query {
        filter: Filter {
            call: call.to_owned(),
            ..Filter::default()
        },
        all: true,
        limit: MOST,
        ..Query::default()
    };
    let mut records = find(index, ledger, &by_call).await?.0.records;
    let approval = records
        .iter()
        .map(|record| record.approval.clone())
        .find(|approval| !approval.is_empty());
    if let Some(approval) = approval {
        let by_approval = Query {
            filter: Filter {
                approval,
                kind: "change".to_owned(),
                ..Filter::default()
            },
            all: true,
            limit: MOST,
            ..Query::default()
        };
        records.extend(find(index, ledger, &by_approval).await?.0.records);
    }
    records.sort_by_key(|record| record.seq);
    records.dedup_by_key(|record| record.seq);
    Ok(records)
}
