//! The published vectors for JSON web signatures and keys, from a package.

use wire::{Json, Limits};
use wycheproof_ng_kdf_jose::json_web::{TestGroup, TestName, TestSet};

use crate::{
    Jwks,
    jws::{self, KeyId},
    text64,
};

/// The public keys of a group as a set.
fn key_set(group: &TestGroup) -> String {
    let keys = group
        .public_key
        .as_ref()
        .or(group.private_key.as_ref())
        .unwrap();
    if keys.get("keys").is_some() {
        keys.to_string()
    } else {
        format!(r#"{{"keys":[{keys}]}}"#)
    }
}

fn accepts(set: &str, token: &str) -> bool {
    Jwks::parse(set.as_bytes())
        .is_ok_and(|keys| jws::verify(token, keys.ring(), &["JWT"], KeyId::OptionalForOne).is_ok())
}

/// Why a valid vector is refused all the same, if there is a reason: symmetric keys and P-521 are not used here, and in two vectors the
/// token's algorithm is not the one the key says it is for.
fn is_not_for_us(set: &str, token: &str) -> bool {
    let json = Json::parse(set.as_bytes(), Limits::default()).unwrap();
    let key = json.get("keys").unwrap().items().next().unwrap();
    let said = key
        .get("alg")
        .and_then(Json::as_str)
        .unwrap_or_default()
        .into_owned();
    let header = text64::from_url(token.split('.').next().unwrap_or_default()).unwrap_or_default();
    let header = Json::parse(&header, Limits::default())
        .ok()
        .and_then(|header| Some(header.get("alg")?.as_str()?.into_owned()));
    key.get("kty").unwrap().as_str().unwrap() == "oct"
        || said == "ES521"
        || header.is_none_or(|header| header != said)
}

#[test]
fn wycheproof_signatures_and_keys_have_no_mismatch() {
    let (mut tried, mut accepted, mut valid) = (0, 0, 0);
    for name in [
        TestName::JsonWebSignature,
        TestName::JsonWebKey,
        TestName::JsonWebCrypto,
    ] {
        for group in TestSet::load(name).unwrap().test_groups {
            let set = key_set(&group);
            for test in &group.tests {
                let Some(jws) = &test.jws else { continue };
                // The JSON forms come as objects: we would be handed their text.
                let token = jws.as_str().map_or_else(|| jws.to_string(), str::to_owned);
                let accepts = accepts(&set, &token);
                let wanted = !test.result.must_fail() && !is_not_for_us(&set, &token);
                assert_eq!(
                    accepts, wanted,
                    "{} {}: {} {token:.120}",
                    group.group_comment, test.tc_id, test.comment
                );
                tried += 1;
                accepted += usize::from(accepts);
                valid += usize::from(!test.result.must_fail());
            }
        }
    }
    assert!(
        tried > 440 && accepted >= 35 && valid > accepted,
        "{tried} tried, {accepted} of {valid} accepted"
    );
}
