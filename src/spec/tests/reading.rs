//! Texts to trees: the meaning of each syntax, and the positions of errors.

use super::harness::{hcl, json, messages, name_of, read, read_as, yaml};
use crate::syntax::Syntax;
use crate::template::template;

#[test]
fn a_flat_file_is_one_volume() {
    let (specs, messages) = read_as(&template(Syntax::Hcl, "volume.hcl"), Syntax::Hcl);
    assert_eq!(messages, Vec::<String>::new());
    assert_eq!(specs.len(), 1);
    assert_eq!(specs[0].request.id.as_str(), "database");
    assert_eq!(specs[0].request.capabilities.len(), 2);
    assert_eq!(specs[0].request.capacity.min.get(), 1 << 30);
}

/// Values have the meaning of Nomad's reader.
#[test]
fn texts_in_hcl_mean_what_they_mean_to_nomad() {
    for (written, expected, warning) in [
        (r#""plain""#, "plain", None),
        (r#""tab\tquote\"back\\\x41\101\u00e4\U0001F980""#, "tab\tquote\"back\\AAä🦀", None),
        (r#""bell\a\b\f\v\r""#, "bell\u{7}\u{8}\u{c}\u{b}\r", None),
        (r#""a${x}b""#, "a${x}b", Some("?spec/literal-template")),
        (r#""a${f("x\n")}b""#, "a${f(\"x\\n\")}b", Some("?spec/literal-template")),
        (r#""$${x}""#, "$${x}", Some("?spec/literal-template")),
        (r#""%{if}""#, "%{if}", Some("?spec/literal-template")),
        (r#""\u0024{x""#, "${x", None),
        ("7", "7", None),
        ("007", "7", Some("?spec/number-as-text")),
        ("010", "8", Some("?spec/number-as-text")),
        ("0x1F", "31", Some("?spec/number-as-text")),
        ("-0x10", "-16", Some("?spec/number-as-text")),
        ("1.10", "1.1", Some("?spec/number-as-text")),
        (".5", "0.5", Some("?spec/number-as-text")),
        ("1e3", "1000", Some("?spec/number-as-text")),
        ("1.5", "1.5", None),
        ("true", "1", Some("?spec/boolean-as-text")),
        ("false", "0", Some("?spec/boolean-as-text")),
        ("<<EOF\none\n  two\nEOF\n", "one\n  two\n", None),
        ("<<EOF\none\n  EOF\n", "one\n  ", None),
        ("<<-EOF\n  one\n    two\n  EOF\n", "one\n  two\n", None),
        ("<<-EOF\n  one\ntwo\n  EOF\n", "  one\ntwo\n", None),
        ("<<-EOF\n  one\n\n  EOF\n", "  one\n\n", None),
        ("<<EOF\r\none\r\nEOF\r\n", "one\n", None),
        ("<<EOF\n\\n ${x}\nEOF\n", "\\n ${x}\n", Some("?spec/literal-template")),
    ] {
        let (name, messages) = name_of(&hcl(&format!("name = {written}")), Syntax::Hcl);
        assert_eq!(name.as_deref(), Some(expected), "{written}");
        assert_eq!(messages.first().map(String::as_str), warning, "{written}");
    }
}

#[test]
fn texts_in_json_mean_what_they_mean_to_nomad() {
    for (written, expected, warning) in [
        (r#""plain""#, Some("plain"), None),
        (r#""${x}""#, Some("${x}"), None),
        (r#""\u00e4\ud83e\udd80\/\n""#, Some("ä🦀/\n"), None),
        (r#""\x41\101\a""#, Some("AA\u{7}"), Some("?spec/lenient-json")),
        ("\"a\tb\"", Some("a\tb"), Some("?spec/lenient-json")),
        ("7", Some("7"), None),
        ("1.10", Some("1.1"), Some("?spec/number-as-text")),
        ("true", Some("1"), Some("?spec/boolean-as-text")),
        ("null", None, None),
        (r#""""#, None, None),
    ] {
        let (name, messages) = name_of(&json(&format!("\"name\": {written}")), Syntax::Json);
        assert_eq!(name.as_deref(), expected, "{written}");
        assert_eq!(messages.first().map(String::as_str), warning, "{written}");
    }
}

/// Texts in YAML keep their source text, unlike in YAML 1.1.
#[test]
fn texts_in_yaml_keep_their_source() {
    for (written, expected) in [
        ("plain", Some("plain")),
        ("1.10", Some("1.10")),
        ("012", Some("012")),
        ("0x1F", Some("0x1F")),
        ("1e3", Some("1e3")),
        ("1:30", Some("1:30")),
        ("no", Some("no")),
        ("True", Some("True")),
        ("'it''s'", Some("it's")),
        ("\"a\\tb\"", Some("a\tb")),
        ("|\n  one\n  two", Some("one\ntwo\n")),
        (">-\n  one\n  two", Some("one two")),
        ("!!str null", Some("null")),
        ("~", None),
        ("", None),
        ("&x value", Some("value")),
    ] {
        let (name, messages) = name_of(&yaml(&format!("name: {written}")), Syntax::Yaml);
        assert_eq!(name.as_deref(), expected, "{written}");
        assert_eq!(messages, Vec::<String>::new(), "{written}");
    }
}

/// HCL1 allows structures that HCL2 refuses.
#[test]
fn the_structure_of_hcl1_is_read() {
    for text in [
        "id = \"a\" type = \"csi\" plugin_id = \"p\" capability { access_mode = \"single-node-writer\" attachment_mode = \"file-system\" }",
        "id = \"a\", type = \"csi\",\nplugin_id = \"p\",\ncapability = { access_mode = \"single-node-writer\", attachment_mode = \"file-system\", },",
        "\"id\" = \"a\"\n\"TYPE\" = \"CSI\"\nPlugin_ID = \"p\"\n\"capability\" { \"access_mode\" = \"single-node-writer\" \"attachment_mode\" = \"file-system\" }",
        "# c\nid /* c */ = // c\n \"a\" # c\ntype=\"csi\"/**/plugin_id=\"p\"\ncapability\n{\naccess_mode\n=\n\"single-node-writer\" attachment_mode=\"file-system\"}",
        "\u{20}\r\nid = \"a\"\r\ntype = \"csi\"\r\nplugin_id = \"p\"\r\ncapability {\r\n access_mode = \"single-node-writer\"\r\n attachment_mode = \"file-system\"\r\n}\r\n",
        "id = \"a\" type = \"csi\" plugin_id = \"p\" parameters { \"a/b\" = \"1\" c.d = \"2\" e-f = \"3\" } capability { access_mode = \"single-node-writer\" attachment_mode = \"file-system\" }",
        "  {\"id\": \"a\", \"type\": \"csi\", \"plugin_id\": \"p\", \"capability\": {\"access_mode\": \"single-node-writer\", \"attachment_mode\": \"file-system\"}}",
    ] {
        let (specs, messages) = read_as(text, Syntax::Hcl);
        assert_eq!(messages, Vec::<String>::new(), "{text}");
        assert_eq!(specs[0].request.id.as_str(), "a", "{text}");
        assert_eq!(specs[0].request.plugin_id.as_str(), "p", "{text}");
        assert_eq!(specs[0].request.capabilities.len(), 1, "{text}");
    }
}

#[test]
fn hcl2_literals_decide_the_meaning_of_the_file() {
    let text = hcl("parameters = {a: \"1\", \"b\" = (\"2\"), c = 010}\nname = null");
    let (specs, messages) = read_as(&text, Syntax::Hcl);
    assert_eq!(messages, Vec::<String>::new());
    let parameters = specs[0].request.parameters.as_ref().expect("there are some");
    let pairs: Vec<_> = parameters.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(pairs, [("a", "1"), ("b", "2"), ("c", "10")], "a file of HCL2 is decimal");
    assert_eq!(specs[0].request.name, None);
}

#[test]
fn expressions_are_refused_with_their_positions() {
    for (value, place) in [
        ("f(\"X\")", "1:8 f(\"X\")"),
        ("var.name", "1:8 var.name"),
        ("upper(\"a\") ", "1:8 upper(\"a\")"),
        ("\"a\" == \"b\" ? \"x\" : \"y\"", "1:8 \"a\" == \"b\" ? \"x\" : \"y\""),
        ("1 + 2 # three", "1:8 1 + 2"),
        ("us-east-1", "1:8 us-east-1"),
        ("[for k in [1] : k]", "1:8 [for k in [1] : k]"),
    ] {
        let messages = messages(&hcl(&format!("name = {value}")), Syntax::Hcl);
        assert_eq!(messages, [format!("spec/expression {place}")], "{value}");
    }
    let one_line = "topology_request { required { topology { segments { zone = f(\"Z\") } } } }";
    assert_eq!(
        messages(&hcl(one_line), Syntax::Hcl),
        ["spec/expression 1:60 f(\"Z\")"],
        "HCL1's structure may contain an expression"
    );
    let template = "name = \"a${b}\"\nexternal_id = upper(\"x\")";
    assert_eq!(
        messages(&hcl(template), Syntax::Hcl),
        ["spec/expression 1:8 \"a${b}\"", "spec/expression 2:15 upper(\"x\")"],
        "a template in an HCL2 file is not literal text"
    );
}

#[test]
fn invalid_hcl_is_reported_with_its_position() {
    for (text, expected) in [
        ("id = \"a", "1:6 \""),
        ("id = \"a${b\"", "1:8 ${b\""),
        ("id = \"\\q\"", "1:7 \\q"),
        ("capability {", "1:12 {"),
        ("topology_request { required = [\"a\" ", "1:31 ["),
        ("topology_request { requires = [\"a\" \"b\"] }", "1:36 \"b\""),
        ("}", "1:1 }"),
        ("id", "1:1 id"),
        ("id\nname = \"x\"", "1:1 id"),
        ("id: \"a\"", "1:3 :"),
        ("'id' = 1", "1:1 '"),
        ("id = 'a'", "1:6 '"),
        ("id = \"a\0b\"", "1:8 \0"),
        ("id = ", "1:6"),
        ("capacity_min = 10GiB", "1:16 10GiB"),
        ("id = 08", "1:6 08"),
        ("id = <<EOF\nabc\n", "1:6 <<EOF"),
        ("id = << EOF\n", "1:6 <<"),
        ("/* never closed", "1:1 /*"),
        ("= 1", "1:1 ="),
        ("true = 1", "1:1 true"),
        ("id = upper(\"x\"", "1:14 \""),
    ] {
        let messages = messages(text, Syntax::Hcl);
        assert_eq!(messages, [format!("spec/syntax {expected}")], "{text:?}");
    }
}

#[test]
fn invalid_json_is_reported_with_its_position() {
    for (text, expected) in [
        ("[]", "1:1 ["),
        ("", "1:1"),
        ("{\"id\": \"x\" \"name\": \"y\"}", "1:12 \""),
        ("{\"id\": \"x\"} x", "1:13 x"),
        ("{\"id\": \"x\"", "1:1 {"),
        ("{\"id\": [\"x\"", "1:8 ["),
        ("{\"id\" \"x\"}", "1:7 \""),
        ("{\"id\": }", "1:8 }"),
        ("{\"id\": x}", "1:8 x"),
        ("{id: 1}", "1:2 i"),
        ("{\"id\": \"x}", "1:8 \""),
        ("{\"id\": \"\\q\"}", "1:9 \\q"),
        ("{\"id\": \"\\ud83d\"}", "1:9 \\u"),
        ("{\"id\": 007}", "1:8 007"),
        ("{\"id\": 1.}", "1:8 1."),
        ("{\"id\": -}", "1:8 -"),
        ("{,}", "1:2 ,"),
        ("// {}", "1:1 /"),
    ] {
        let messages = messages(text, Syntax::Json);
        assert_eq!(messages, [format!("spec/syntax {expected}")], "{text:?}");
    }
}

/// Nomad silently drops everything after a missing comma.
#[test]
fn the_help_on_a_missing_comma_names_nomads_behaviour() {
    let read = read("{\"id\": \"x\" \"mount_options\": {}}", Syntax::Json);
    let messages = read.diagnostics.iter().next().expect("an error");
    assert!(messages.help[0].contains("Nomad would ignore"), "{messages:?}");
}

#[test]
fn invalid_yaml_is_reported_with_its_position() {
    for (text, expected) in [
        ("- a", "spec/syntax 1:1"),
        ("just text", "spec/syntax 1:1 just text"),
        ("id: \"a", "spec/syntax 1:5 \""),
        ("id: [a", "spec/syntax 1:5 ["),
        ("a: b\n c: d", "spec/syntax 2:3 :"),
        ("id:\n\t- a", "spec/syntax 2:2"),
        ("id: *missing", "spec/syntax 1:5 *"),
        ("id: @a", "spec/syntax 1:5 @"),
        ("id: !other a", "spec/syntax 1:"),
        ("? [a]\n: b", "spec/syntax 1:3"),
        ("id: a\n\ttype: csi", "spec/syntax 2:1"),
        ("id: a: b", "spec/syntax 1:6 :"),
        ("id: {a: b", "spec/syntax 1:5 {"),
        ("id: \"a\" b", "spec/syntax 1:9 b"),
        ("id: a\nname: x\nid: b", "spec/duplicate-field 3:1 id"),
    ] {
        let messages = messages(text, Syntax::Yaml);
        let first = messages.first().map(String::as_str).unwrap_or_default();
        assert!(first.starts_with(expected), "{text:?}: {messages:?}");
    }
}

#[test]
fn anchors_and_merges_are_resolved() {
    let text = "
volume:
  a:
    <<: &shared {type: csi, plugin_id: p}
    capability: &one {access_mode: single-node-writer, attachment_mode: file-system}
  b:
    <<: [*shared, {plugin_id: q, name: n}]
    plugin_id: mine
    capability: [*one, {access_mode: multi-node-reader-only, attachment_mode: file-system}]
";
    let (specs, messages) = read_as(text, Syntax::Yaml);
    assert_eq!(messages, Vec::<String>::new());
    let of = |at: usize| {
        let request = &specs[at].request;
        (
            request.id.as_str(),
            request.plugin_id.as_str(),
            request.name.as_deref(),
            request.capabilities.len(),
        )
    };
    assert_eq!(of(0), ("a", "p", None, 1));
    assert_eq!(of(1), ("b", "mine", Some("n"), 2));
}
