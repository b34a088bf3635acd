//! Mistakes in the texts and expressions of job files: each is marked where it is, with what to do about it.

use super::parse::parse_job;
use crate::{Defaults, Syntax};
use nomad_csi_model::diagnostic::{Diagnostic, Diagnostics, Severity, SourceMap};

/// Returns the problems of a job file, each with the text that it marks and its line.
fn problems(text: &str, syntax: Syntax) -> Vec<(String, usize, Diagnostic)> {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("job", text);
    parse_job(&mut sources, source, syntax, &Defaults::default(), &mut diagnostics);
    diagnostics.sort();
    let shown = |one: &Diagnostic| {
        let span = one.labels.first().map(|label| label.span).expect("a place");
        let marked = text.get(span.range()).unwrap_or_default().to_owned();
        (marked, sources.location(span).line, one.clone())
    };
    diagnostics.iter().map(shown).collect()
}

fn job(task: &str) -> String {
    format!(
        "job \"x\" {{\n  type = \"batch\"\n  group \"g\" {{\n    task \"t\" {{\n      driver = \"exec\"\n{task}\n    }}\n  }}\n}}\n"
    )
}

/// What is no reference, and its part that is marked.
const MALFORMED: [(&str, &str); 13] = [
    ("echo ${NAME:-default} x", "${NAME:-default}"),
    ("echo ${NAME:?} ${NOMAD_ALLOC_ID}", "${NAME:?}"),
    ("curl -w %{http_code} x", "%{http_code}"),
    ("echo ${#a[@]}", "${#a[@]}"),
    ("echo ${a[@]}", "${a[@]}"),
    ("echo ${a%%.*} x", "${a%%.*}"),
    ("x %{[@metadata][x]} y", "%{[@metadata][x]}"),
    ("index-%{+YYYY.MM.dd} y", "%{+YYYY.MM.dd}"),
    ("LogFormat %{Referer}i combined", "%{Referer}"),
    ("echo ${", "${"),
    ("echo ${NAME x", "${NAME x"),
    ("echo $1${2:-}", "${2:-}"),
    ("$${OK} ${} %%{OK}", "${}"),
];

#[test]
fn what_is_no_reference_is_marked_wherever_the_text_is() {
    for (mistake, part) in MALFORMED {
        let heredoc = format!("<<EOF\necho $HOME one\n{mistake}\nfour\nEOF\n");
        let indented = format!(
            "<<-EOF\n    echo one ${{NOMAD_TASK_DIR}}\n    {mistake}\n      four\n    EOF\n"
        );
        let after_escape = format!("<<EOF\n$${{NAME:-default}} %%{{http_code}} {mistake}\nEOF\n");
        for (task, line) in [
            (format!("config {{\n command = \"sh\"\n args = [\"-c\", {heredoc} ]\n}}"), 10),
            (format!("config {{\n command = \"sh\"\n args = [\"-c\", {indented} ]\n}}"), 10),
            (format!("config {{\n args = [\n{after_escape} ]\n}}"), 9),
            (format!("config {{\n args = [\"-c\", \"a\\tb\", \"{mistake}\"]\n}}"), 7),
            (format!("env {{\n A = \"x\"\n B = \"{mistake}\"\n}}"), 8),
            (format!("env = {{\n B = {heredoc}\n}}"), 9),
            (format!("meta {{\n B = {indented}}}"), 9),
            (format!("template {{\n data = {heredoc}\n destination = \"a\"\n}}"), 9),
            (format!("template {{\n data = \"{mistake}\"\n destination = \"a\"\n}}"), 7),
            (format!("logs {{\n x = {heredoc}\n}}"), 9),
            (format!("service {{\n name = \"{mistake}\"\n}}"), 7),
        ] {
            let text = job(&task);
            let found = problems(&text, Syntax::Hcl);
            let is_closed = !part.ends_with(['{', 'x']);
            let of_text: Vec<_> = found
                .iter()
                .filter(|(_, _, one)| {
                    one.severity == Severity::Error && one.code.as_str() != "job/not-supported"
                })
                .collect();
            let [(marked, at, problem)] = &of_text[..] else { panic!("{text}\n{found:#?}") };
            assert_eq!(*at, line, "{text}\n{problem:?}");
            if is_closed {
                assert_eq!(marked, part, "{text}");
            } else {
                assert!(marked.starts_with("${"), "{text}\n{marked}");
            }
            let escaped = if part.starts_with('%') { "write `%%{`" } else { "write `$${`" };
            assert_eq!(problem.help.len(), 1, "{problem:?}");
            assert!(problem.help[0].starts_with(escaped), "{text}\n{problem:?}");
        }
    }
}

/// The help of each mistake is right: the text with it is valid.
#[test]
fn a_text_with_the_escape_that_the_help_names_is_valid() {
    for (mistake, part) in MALFORMED {
        let escaped = mistake.replacen(part, &part.replace("${", "$${").replace("%{", "%%{"), 1);
        for task in [
            format!("config {{\n args = [\"-c\", <<EOF\none\n{escaped}\nEOF\n ]\n}}"),
            format!("config {{\n args = [\"-c\", \"{escaped}\"]\n}}"),
            format!("env {{\n B = \"{escaped}\"\n}}"),
        ] {
            let found = problems(&job(&task), Syntax::Hcl);
            assert!(found.is_empty(), "{task}\n{found:#?}");
        }
    }
}

#[test]
fn what_is_no_reference_is_marked_in_yaml_and_json() {
    for (mistake, part) in MALFORMED.iter().filter(|(_, part)| part.len() > 3) {
        let yaml = format!(
            "job:\n  x:\n    group:\n      g:\n        task:\n          t:\n            driver: exec\n            env:\n              A: |\n                one\n                {mistake}\n              B: \"{mistake}\"\n"
        );
        let found = problems(&yaml, Syntax::Yaml);
        let places: Vec<_> =
            found.iter().map(|(marked, line, _)| (marked.as_str(), *line)).collect();
        assert_eq!(places, [(*part, 11), (*part, 12)], "{yaml}\n{found:#?}");
        let json = format!(
            "{{\"job\": {{\"x\": {{\"group\": {{\"g\": {{\"task\": {{\"t\": {{\"driver\": \"exec\",\n\"env\": {{\"A\": \"one\\n{mistake}\"}}}}}}}}}}}}}}}}"
        );
        let found = problems(&json, Syntax::Json);
        let places: Vec<_> =
            found.iter().map(|(marked, line, _)| (marked.as_str(), *line)).collect();
        assert_eq!(places, [(*part, 2)], "{json}\n{found:#?}");
    }
}

#[test]
fn each_expression_of_a_job_names_the_way_out_and_no_warning_contradicts_it() {
    for (line, marked) in [
        ("config {\n image = format(\"a%s\", 1)\n}", vec!["format(\"a%s\", 1)"]),
        (
            "config {\n args = [\"${var.a}:${local.b}\", var.c]\n}",
            vec!["${var.a}", "${local.b}", "var.c"],
        ),
        ("config {\n args = concat([\"a\"], local.l)\n}", vec!["concat([\"a\"], local.l)"]),
        ("config {\n args = [for x in var.l : x]\n}", vec!["[for x in var.l : x]"]),
        ("env = merge(local.e, { A = 1 })", vec!["merge(local.e, { A = 1 })"]),
        (
            "env {\n A = \"%{ if var.x }a%{ else }b%{ endif }\"\n}",
            vec!["%{ if var.x }a%{ else }b%{ endif }"],
        ),
        (
            "config {\n data = <<EOF\n${upper(local.x)} ${NOMAD_IP}\nEOF\n}",
            vec!["${upper(local.x)}"],
        ),
        ("resources {\n cpu = var.n > 1 ? 5 : 6\n}", vec!["var.n > 1 ? 5 : 6"]),
        ("dynamic \"volume_mount\" {\n for_each = [1]\n content {}\n}", vec!["dynamic"]),
        ("user = var.user", vec!["var.user"]),
        ("kill_timeout = local.t", vec!["local.t"]),
    ] {
        let text = format!(
            "variable \"a\" {{\n default = 1\n}}\nlocals {{\n b = upper(var.a)\n}}\nvariables {{\n c = 1\n}}\n{}",
            job(line)
        );
        let found = problems(&text, Syntax::Hcl);
        let places: Vec<_> = found.iter().map(|(marked, _, _)| marked.trim().to_owned()).collect();
        assert_eq!(places, marked, "{text}\n{found:#?}");
        for (_, _, problem) in found {
            assert_eq!(problem.code.as_str(), "job/expression");
            assert!(problem.help[0].contains("nomad job run -output FILE"), "{problem:?}");
            let is_in_text = line.contains("${") || line.contains("%{");
            let names_escape = problem.help.iter().any(|help| help.contains("write `$${`"));
            assert!(is_in_text || !names_escape, "{problem:?}");
        }
    }
    // The shell's form of it is an operator of HCL.
    let found = problems(&job("env {\n A = \"${a/b/c}\"\n}"), Syntax::Hcl);
    assert!(found[0].2.help[1].contains("write `$${`"), "{found:#?}");
    let unused = format!("variable \"a\" {{}}\nlocals {{\n b = upper(var.a)\n}}\n{}", job(""));
    assert!(problems(&unused, Syntax::Hcl).is_empty(), "a declaration without a use has no effect");
}

#[test]
fn templates_of_other_programs_say_what_they_are() {
    for (text, marked, program) in [
        ("job [[ template \"job_name\" . ]] {\n}\n", "[[ template \"job_name\" . ]]", "nomad-pack"),
        (
            "job \"a\" {\n  [[ template \"region\" . ]]\n}\n",
            "[[ template \"region\" . ]]",
            "nomad-pack",
        ),
        (
            "job \"a\" {\n  datacenters = [[ var \"datacenters\" . | toStringList ]]\n}\n",
            "[[ var \"datacenters\" . | toStringList ]]",
            "nomad-pack",
        ),
        ("[[- if .x ]]\njob \"a\" {\n}\n[[- end ]]\n", "[[- if .x ]]", "nomad-pack"),
        (
            "job \"a\" {\n  group \"g\" {\n    count = [[ .count ]]\n  }\n}\n",
            "[[ .count ]]",
            "nomad-pack",
        ),
        ("job \"[[ var \"id\" . ]]\" {\n}\n", "[[ var \"id\" . ]]", "nomad-pack"),
        (
            "job \"a\" {\n  datacenters = [\n%{ for dc in dcs ~}\n    \"${dc}\",\n%{ endfor ~}\n  ]\n}\n",
            "%{ for dc in dcs ~}",
            "Terraform",
        ),
        ("job \"a\" {\n  priority = ${priority}\n}\n", "${priority}", "Terraform"),
        ("job \"a\" {\n%{ if x }\n  priority = 5\n%{ endif }\n}\n", "%{ if x }", "Terraform"),
        (
            "job \"a\" {\n  group \"g\" {\n    count = {{ count }}\n  }\n}\n",
            "{{ count }}",
            "a template, not",
        ),
        (
            "job \"a\" {\n  {{ if x }}\n  priority = 5\n  {{ end }}\n}\n",
            "{{ if x }}",
            "a template, not",
        ),
        (
            "{{- range .jobs }}\njob \"{{ .name }}\" {\n}\n{{- end }}\n",
            "{{- range .jobs }}",
            "a template, not",
        ),
    ] {
        let found = problems(text, Syntax::Hcl);
        let [(at, _, problem)] = &found[..] else { panic!("{text}\n{found:#?}") };
        assert_eq!(at, marked, "{text}");
        assert_eq!(problem.code.as_str(), "spec/other-form", "{text}");
        assert!(problem.message.contains(program), "{text}: {}", problem.message);
        assert!(problem.help.len() == 1, "{problem:?}");
    }
}

/// What only looks like a template does not hide the mistake of a file.
#[test]
fn a_mistake_beside_texts_for_other_programs_is_the_mistake() {
    for line in [
        "config {\n args = [[\"a\", \"b\"]\n}",
        "env {\n A = \"{{ .x }}\"\n B = = 1\n}",
        "config {\n args = [\"-c\", <<EOF\nif [[ -f x ]]; then echo {{ .y }}; fi\nEOF\n ]\n B = = 1\n}",
        "# {{ x }} [[ var \"y\" ]] ${z}\n B = = 1",
        "env {\n A = \"%{ if x }y%{ endif }\"\n B = = 1\n}",
    ] {
        let found = problems(&job(line), Syntax::Hcl);
        let codes: Vec<_> = found.iter().map(|(_, _, one)| one.code.as_str()).collect();
        assert_eq!(codes, ["spec/syntax"], "{line}\n{found:#?}");
    }
}

#[test]
fn a_suggestion_in_a_job_leads_to_a_key_that_is_possible() {
    let with = |word: &str| job(&format!("{word} = \"x\""));
    for word in [
        "vault_token",
        "templates",
        "artifacts",
        "identity_",
        "schedules",
        "driver_",
        "en",
        "resource",
    ] {
        let text = with(word);
        for (_, _, problem) in problems(&text, Syntax::Hcl) {
            let Some(replacement) = &problem.replacement else { continue };
            let range = replacement.span.range();
            let replaced =
                format!("{}{}{}", &text[..range.start], replacement.text, &text[range.end..]);
            let after = problems(&replaced, Syntax::Hcl);
            assert!(after.is_empty(), "{replaced}\n{after:#?}");
        }
    }
    let found = problems(&with("vault_token"), Syntax::Hcl);
    assert_eq!(found[0].2.labels[0].text, "Nomad refuses this");
    let found = problems(&job("usr = \"x\""), Syntax::Hcl);
    assert_eq!(found[0].2.labels[0].text, "did you mean `user`?");
}

#[test]
fn a_field_of_a_template_in_quotes_is_a_warning() {
    let with = |value: &str| job(&format!("env {{\n A = \"{value}\"\n}}"));
    for value in ["[[ .image ]]", "a-[[.job.name]]:1", "[[- .x -]]"] {
        let found = problems(&with(value), Syntax::Hcl);
        let [(marked, 7, problem)] = &found[..] else { panic!("{value}: {found:#?}") };
        assert!(value.contains(marked.as_str()) && marked.starts_with("[["), "{marked}");
        assert_eq!(problem.severity, Severity::Warning);
    }
    for value in
        ["if [[ -f x ]]; then", "[[ $a == b ]]", "[[ a ]]", "{{ .x }}", "[[ . ]]", "[[:alpha:]]"]
    {
        assert!(problems(&with(value), Syntax::Hcl).is_empty(), "{value}");
    }
    let heredoc = job("config {\n args = [\"-c\", <<EOF\n[[ .x ]]\nEOF\n ]\n}");
    assert!(
        problems(&heredoc, Syntax::Hcl).is_empty(),
        "a here-document may have it for its reader"
    );
}

#[test]
fn keys_of_other_files_say_what_they_are() {
    for (text, what) in [
        ("resource \"nomad_job\" \"a\" {\n jobspec = 1\n}\n", "Terraform"),
        ("provider \"nomad\" {}\n", "Terraform"),
        ("plugin_id = \"a\"\n", "a field of a volume"),
        ("class \"a\" {}\n", "specifications of volumes"),
    ] {
        let found = problems(text, Syntax::Hcl);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].2.message.contains(what) && found[0].2.help.len() == 1, "{found:#?}");
    }
}

#[test]
fn an_open_reference_does_not_hide_the_mistakes_before_it() {
    let text = job(
        "config {\n args = [\"-c\", \"echo ${#a[@]}\"]\n}\nenv {\n A = \"%{+YYYY}\"\n B = \"x ${NAME\"\n C = \"y\"\n}",
    );
    let found = problems(&text, Syntax::Hcl);
    let places: Vec<_> = found.iter().map(|(marked, line, _)| (marked.as_str(), *line)).collect();
    assert_eq!(places, [("${#a[@]}", 7), ("%{+YYYY}", 10), ("${NAME\"", 11)]);
}
