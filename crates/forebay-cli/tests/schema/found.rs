//! Derives the schema of an answer, and merges the schemas of several answers.

use serde_json::{Map, Value, json};

/// Objects whose keys are names, not fields.
const OPEN: [&str; 1] = ["placement"];

/// Returns a schema for `value`, which is in a field called `name`.
pub(crate) fn of(name: &str, value: &Value) -> Value {
    match value {
        // Until an answer has a value here, the schema allows anything.
        Value::Null => json!({"default": null}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::String(_) => json!({"type": "string"}),
        Value::Number(_) if name == "schema_version" => json!({"const": value}),
        Value::Number(number) if number.is_f64() => json!({"type": "number"}),
        Value::Number(_) => json!({"type": "integer"}),
        Value::Array(items) => {
            let each = items.iter().map(|item| of("", item));
            match each.reduce(|all, one| merged(Some(all), one)) {
                Some(item) => json!({"type": "array", "items": item}),
                None => json!({"type": "array"}),
            }
        }
        Value::Object(fields) if OPEN.contains(&name) => {
            let each = fields.values().map(|value| of("", value));
            match each.reduce(|all, one| merged(Some(all), one)) {
                Some(value) => json!({"type": "object", "additionalProperties": value}),
                None => json!({"type": "object"}),
            }
        }
        Value::Object(fields) => {
            let each = fields.iter().map(|(name, value)| (name.clone(), of(name, value)));
            let properties: Map<String, Value> = each.collect();
            let required: Vec<&String> = fields.keys().collect();
            json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            })
        }
    }
}

/// Returns a schema that accepts everything that either schema accepts.
pub(crate) fn merged(known: Option<Value>, other: Value) -> Value {
    let Some(mut known) = known else { return other };
    if known.get("const").is_some() {
        return known;
    }
    let names = |schema: &Value| -> Vec<String> {
        match &schema["type"] {
            Value::Null if schema.get("default").is_some() => vec!["null".to_string()],
            Value::Array(all) => all.iter().filter_map(Value::as_str).map(str::to_string).collect(),
            one => one.as_str().map(str::to_string).into_iter().collect(),
        }
    };
    let mut types = names(&known);
    types.extend(names(&other));
    types.sort_unstable();
    types.dedup();
    if types.contains(&"number".to_string()) {
        types.retain(|name| name != "integer");
    }
    if types == ["null"] {
        return known;
    }
    if let Some(fields) = known.as_object_mut() {
        fields.remove("default");
    }
    known["type"] = if types.len() == 1 { json!(types[0]) } else { json!(types) };
    for key in ["items", "additionalProperties"] {
        if let Some(value) = other.get(key).filter(|value| value.is_object()) {
            known[key] =
                merged(known.get(key).filter(|known| known.is_object()).cloned(), value.clone());
        }
    }
    if let Some(properties) = other.get("properties").and_then(Value::as_object) {
        // If objects have different keys, only the keys that they share are required.
        let had = known.get("properties").is_some();
        for (name, value) in properties {
            let before = known["properties"].get(name).cloned();
            known["properties"][name] = merged(before, value.clone());
        }
        let required = other["required"].as_array().cloned().unwrap_or_default();
        known["required"] = match known["required"].as_array().filter(|_| had) {
            Some(both) => both.iter().filter(|name| required.contains(name)).cloned().collect(),
            None => Value::Array(required),
        };
        known["additionalProperties"] = Value::Bool(false);
    }
    known
}
