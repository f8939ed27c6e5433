//! Pages and documents that are drawn from the code are current.

use testkit::generated::check;

#[test]
fn generated_files_of_the_configuration_are_current() {
    check("schema/portcullis.schema.json", &config::schema());
    check("docs/use/config.md", &config::reference());
}

#[test]
fn the_openapi_document_is_generated_from_the_table_of_operations() {
    check("docs/openapi.json", &api::document());
}

/// The interface describes records that the ledger's own type writes.
#[test]
fn a_record_of_the_interface_has_the_fields_of_one_of_the_ledger() {
    let mut full = serde_json::to_value(audit::Record::default()).unwrap();
    let fields = full.as_object_mut().unwrap();
    let drawn = api::document();
    let document: serde_json::Value = serde_json::from_str(&drawn).unwrap();
    let described = document
        .pointer("/components/schemas/LogRecord/properties")
        .unwrap();
    for (name, schema) in described.as_object().unwrap() {
        let value = match schema.to_string().contains("integer") {
            true => serde_json::json!(7),
            false => serde_json::json!("x"),
        };
        fields.insert(name.clone(), value);
    }
    let record: audit::Record = serde_json::from_value(full.clone()).unwrap();
    assert_eq!(serde_json::to_value(&record).unwrap(), full);
    let shown: api::LogRecord = serde_json::from_value(full.clone()).unwrap();
    assert_eq!(serde_json::to_value(&shown).unwrap(), full);
    // `Record` has no field that is not described: a record with each filled would have it.
    let fields = format!("{record:?}").matches(": ").count();
    assert_eq!(fields, described.as_object().unwrap().len());
}
