//! Validates a value against a schema, using the part of JSON Schema that our schema needs.

use serde_json::Value;

/// Returns how `value`, which is at path `place`, violates `schema`. An empty list means that it is
/// valid.
pub(crate) fn wrong(schema: &Value, value: &Value, place: &str) -> Vec<String> {
    if let Some(fixed) = schema.get("const") {
        return if fixed == value {
            Vec::new()
        } else {
            vec![format!("{place}: {value}, not {fixed}")]
        };
    }
    if schema.get("default").is_some() {
        return Vec::new();
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    if !kinds.iter().any(|kind| is(kind, value)) {
        return vec![format!("{place}: {value} is none of {kinds:?}")];
    }
    match value {
        Value::Array(items) => {
            let Some(item) = schema.get("items") else { return Vec::new() };
            let each = items.iter().enumerate();
            each.flat_map(|(n, value)| wrong(item, value, &format!("{place}[{n}]"))).collect()
        }
        Value::Object(fields) => {
            let required =
                schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let missing = required.filter(|name| !fields.contains_key(*name));
            let missing = missing.map(|name| format!("{place}: no {name}"));
            let each = fields.iter().flat_map(|(name, value)| {
                let at = format!("{place}.{name}");
                let other = schema.get("additionalProperties").filter(|other| other.is_object());
                match schema["properties"].get(name).or(other) {
                    Some(stated) => wrong(stated, value, &at),
                    None => vec![format!("{at}: not stated")],
                }
            });
            missing.chain(each).collect()
        }
        _ => Vec::new(),
    }
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[test]
fn removed_new_and_retyped_keys_are_found() {
    use serde_json::json;
    let sound = json!({"a": 1, "b": [{"c": null}, {"c": 1.5}], "placement": {"x": 1.0}});
    let schema = super::found::of("", &sound);
    assert_eq!(wrong(&schema, &sound, "t"), [""; 0]);
    for (bad, told) in [
        (json!({"a": 1, "b": []}), "t: no placement"),
        (json!({"a": 1.5, "b": [], "placement": {}}), "t.a: 1.5"),
        (json!({"a": 1, "b": [{"c": "x"}], "placement": {}}), "t.b[0].c: \"x\""),
        (json!({"a": 1, "b": [{}], "placement": {}}), "t.b[0]: no c"),
        (json!({"a": 1, "b": [], "placement": {"y": true}}), "t.placement.y: true"),
        (json!({"a": 1, "b": [], "placement": {}, "d": 0}), "t.d: not stated"),
    ] {
        let found = wrong(&schema, &bad, "t");
        assert!(found.len() == 1 && found[0].starts_with(told), "{found:?}");
    }
}
