//! Mistakes in the texts of specifications: each is marked where it is, with what to do about it.

use super::harness::{self, ReadResult};
use super::language::CAPABILITY;
use crate::syntax::Syntax;
use nomad_csi_model::diagnostic::Diagnostic;

/// Returns the problems of a text, each with the text that it marks and its line.
fn problems(text: &str, syntax: Syntax) -> Vec<(String, usize, Diagnostic)> {
    let ReadResult { diagnostics, sources, .. } = harness::read(text, syntax);
    let shown = |one: &Diagnostic| {
        let span = one.labels.first().map(|label| label.span).expect("a place");
        let marked = text.get(span.range()).unwrap_or_default().to_owned();
        (marked, sources.location(span).line, one.clone())
    };
    diagnostics.iter().map(shown).collect()
}

fn volume(fields: &str) -> String {
    format!(
        "volume \"a\" {{\n type = \"csi\"\n name = \"a\"\n plugin_id = \"p\"\n{fields}\n{CAPABILITY}}}\n"
    )
}

const MALFORMED: [(&str, &str); 11] = [
    ("echo ${NAME:-default} x", "${NAME:-default}"),
    ("echo ${NAME:?}", "${NAME:?}"),
    ("curl -w %{http_code} x", "%{http_code}"),
    ("echo ${#a[@]}", "${#a[@]}"),
    ("echo ${a[@]}", "${a[@]}"),
    ("x %{[@metadata][x]} y", "%{[@metadata][x]}"),
    ("index-%{+YYYY.MM.dd} y", "%{+YYYY.MM.dd}"),
    ("LogFormat %{Referer}i combined", "%{Referer}"),
    ("echo ${", "${"),
    ("echo ${NAME x", "${NAME x"),
    ("$${OK} ${} %%{OK}", "${}"),
];

#[test]
fn what_is_no_reference_is_marked_wherever_the_text_is() {
    for (mistake, part) in MALFORMED {
        let heredoc = format!("<<EOF\none ${{volume.id}}\n{mistake}\nfour\nEOF\n");
        let indented = format!("<<-EOF\n    one\n    {mistake}\n      four\n    EOF\n");
        for (fields, line) in [
            (format!("parameters {{\n s = {heredoc}}}"), 8),
            (format!("parameters = {{\n s = {indented}\n}}"), 8),
            (format!("parameters = merge({{ a = \"b\" }}, {{ s = \"{mistake}\" }})"), 5),
            (format!("parameters {{\n a = \"b\"\n s = \"x{mistake}\"\n}}"), 7),
            (format!("mount_options {{\n mount_flags = [\"a\", \"{mistake}\"]\n}}"), 6),
        ] {
            let text = volume(&fields);
            let found = problems(&text, Syntax::Hcl);
            let [(marked, at, problem)] = &found[..] else { panic!("{text}\n{found:#?}") };
            assert_eq!(*at, line, "{text}\n{problem:?}");
            match part.ends_with('}') {
                true => assert_eq!(marked, part, "{text}"),
                false => assert!(marked.starts_with("${"), "{text}\n{marked}"),
            }
            let escaped = if part.starts_with('%') { "write `%%{`" } else { "write `$${`" };
            let help: Vec<_> = problem.help.iter().collect();
            assert!(help.len() == 1 && help[0].starts_with(escaped), "{text}\n{problem:?}");
            let escaped = part.replace("${", "$${").replace("%{", "%%{");
            let replaced = text.replace(mistake, &mistake.replacen(part, &escaped, 1));
            assert!(problems(&replaced, Syntax::Hcl).is_empty(), "{replaced}");
        }
    }
}

#[test]
fn what_is_no_reference_is_marked_in_yaml_and_json() {
    for (mistake, part) in MALFORMED {
        let yaml = format!(
            "locals: {{x: 1}}\nvolume:\n  a:\n    type: csi\n    name: a\n    plugin_id: p\n    capability: {{access_mode: single-node-writer, attachment_mode: file-system}}\n    parameters:\n      s: |\n        one\n        {mistake}\n      t: \"{mistake}\"\n"
        );
        let found = problems(&yaml, Syntax::Yaml);
        let [(first, 11, one), (second, 12, other)] = &found[..] else {
            panic!("{yaml}\n{found:#?}")
        };
        for (marked, problem) in [(first, one), (second, other)] {
            assert!(marked.starts_with(part), "{yaml}\n{marked}");
            assert_eq!(problem.help.len(), 1, "{problem:?}");
            assert!(problem.help[0].contains("write `"), "{problem:?}");
        }
        let json = format!(
            "{{\"locals\": {{\"x\": 1}}, \"volume\": {{\"a\": {{\"type\": \"csi\", \"name\": \"a\", \"plugin_id\": \"p\",\n\"capability\": {{\"access_mode\": \"single-node-writer\", \"attachment_mode\": \"file-system\"}}, \"parameters\": {{\n\"s\": \"one\\n{mistake}\"}}}}}}}}"
        );
        let found = problems(&json, Syntax::Json);
        let [(marked, 3, _)] = &found[..] else { panic!("{json}\n{found:#?}") };
        assert!(marked.starts_with(part), "{json}\n{marked}");
    }
}

#[test]
fn a_template_of_another_program_is_one_error() {
    for (text, syntax, marked) in [
        ("id = [[ .id ]]\n", Syntax::Hcl, "[[ .id ]]"),
        ("id = \"[[ var \"id\" . ]]\"\n", Syntax::Hcl, "[[ var \"id\" . ]]"),
        ("volume \"a\" {\n  capacity_min = ${size}\n}\n", Syntax::Hcl, "${size}"),
        (
            "%{ for v in volumes ~}\nvolume \"${v}\" {}\n%{ endfor ~}\n",
            Syntax::Hcl,
            "%{ for v in volumes ~}",
        ),
        (
            "{{ range .volumes }}\nid = \"{{ .id }}\"\n{{ end }}\n",
            Syntax::Hcl,
            "{{ range .volumes }}",
        ),
        ("id: {{ .Values.id }}\n", Syntax::Yaml, "{{ .Values.id }}"),
        ("{{- if .Values.x }}\nid: a\n{{- end }}\n", Syntax::Yaml, "{{- if .Values.x }}"),
        ("id: a\n{% if x %}\nname: b\n{% endif %}\n", Syntax::Yaml, "{% if x %}"),
        ("{\"id\": {{ .id }}}", Syntax::Json, "{{ .id }}"),
        ("{\"id\": [[ .id ]]}", Syntax::Json, "[[ .id ]]"),
    ] {
        let found = problems(text, syntax);
        let [(at, _, problem)] = &found[..] else { panic!("{text}\n{found:#?}") };
        assert_eq!((problem.code.as_str(), at.as_str()), ("spec/other-form", marked), "{text}");
    }
}
