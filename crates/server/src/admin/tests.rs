use api::{Kind, Problem};
use http::StatusCode;
use vocab::ErrorCode;

use super::{PROBLEM, refuse, reword};
use crate::reply;

#[test]
fn every_refusal_of_these_paths_is_a_problem() {
    let mut early = reply::refusal(
        StatusCode::UNAUTHORIZED,
        ErrorCode::PermissionDenied,
        "Send a credential: `Authorization: Bearer …`",
    );
    reword(&mut early);
    assert_eq!(early.headers()["content-type"], PROBLEM);
    let own = Problem::new(Kind::StorageFull, "storage_full", "the disk is full");
    let mut reply = refuse(&own);
    reword(&mut reply);
    assert_eq!(reply.status(), StatusCode::INSUFFICIENT_STORAGE);
    assert_eq!(reply.headers()["content-type"], PROBLEM);
}
