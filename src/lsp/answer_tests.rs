//! Answers as functions of a workspace: problems, completion, hover, definition, formatting and quick fixes.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::actions::quick_fixes;
use super::analysis::analyse;
use super::completion::completions;
use super::definition::{definitions, uses};
use super::edits::TextChange;
use super::formatting::formatting;
use super::hover::hover;
use super::positions::{Encoding, Lines, Position, Range};
use super::published::published;
use super::workspace::Workspace;
use nomad_csi_spec::Syntax;

const DECLARATIONS: &str = r#"variable "env" {
  type        = string
  description = "dev or prod"
  default     = "dev"
}
variable "key" {
  type      = string
  sensitive = true
  default   = "hush-hush"
}
variable "unset" {
  type = string
}
locals {
  zone = "eu-${var.env}"
}
class "fast" {
  plugin_id = "ceph"
  secrets {
    key = var.key
  }
}
"#;

const VOLUMES: &str = r#"defaults {
  type  = "csi"
  class = "fast"
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
volume "pg" {
  name         = "${var.env}-pg"
  capacity_min = "10GiB"
}
"#;

fn path(name: &str) -> PathBuf {
    Path::new("/folder").join(name)
}

fn workspace(files: &[(&str, &str)]) -> Workspace {
    let mut workspace = Workspace::new(Some(PathBuf::from("/folder")), Encoding::Utf16);
    for (name, text) in files {
        workspace.open(path(name), text, "hcl", Some(1));
    }
    workspace
}

/// The problems of a workspace, each as its place, its code and the first line of its message.
fn problems(workspace: &Workspace) -> Vec<String> {
    let found = published(workspace, &analyse(workspace));
    let of_file = found.into_iter().flat_map(|(path, problems)| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        problems.into_iter().map(move |one| {
            let start = one.range.start;
            let first = one.message.lines().next().unwrap_or_default().to_owned();
            format!("{name}:{}:{} {} {first}", start.line, start.character, one.code)
        })
    });
    of_file.collect()
}

/// Opens a file whose text has a mark, and returns the position of the mark.
fn open_marked(workspace: &mut Workspace, name: &str, marked: &str) -> Position {
    let offset = marked.find('|').expect("the text has a mark");
    let text = marked.replacen('|', "", 1);
    let position = Lines::new(&text, workspace.encoding).position(offset);
    workspace.open(path(name), &text, "", Some(1));
    position
}

fn labels(files: &[(&str, &str)], name: &str, marked: &str) -> Vec<String> {
    let mut workspace = workspace(files);
    let position = open_marked(&mut workspace, name, marked);
    let found = completions(&workspace, &analyse(&workspace), &path(name), position);
    found.into_iter().map(|item| item.text_edit.new_text).collect()
}

fn hovered(files: &[(&str, &str)], name: &str, marked: &str) -> String {
    let mut workspace = workspace(files);
    let position = open_marked(&mut workspace, name, marked);
    let found = hover(&workspace, &analyse(&workspace), &path(name), position);
    found.map_or_else(String::new, |found| found.contents.value)
}

#[test]
fn valid_files_have_no_problems() {
    let files = [("a.hcl", DECLARATIONS), ("b.hcl", VOLUMES)];
    assert_eq!(problems(&workspace(&files)), Vec::<String>::new());
}

#[test]
fn a_problem_is_where_its_cause_is() {
    let broken = VOLUMES.replace("single-node-writer", "single-node-writter");
    let files = [("a.hcl", DECLARATIONS), ("b.hcl", broken.as_str())];
    let workspace = workspace(&files);
    let found = published(&workspace, &analyse(&workspace));
    let [(of, problems)] = &found.into_iter().collect::<Vec<_>>()[..] else {
        panic!("one file has problems");
    };
    assert_eq!(of, &path("b.hcl"));
    let [problem] = &problems[..] else {
        panic!("there is one problem: {problems:?}");
    };
    let at = |line, character| Position { line, character };
    assert_eq!(problem.range, Range { start: at(4, 22), end: at(4, 43) });
    assert_eq!((problem.code, problem.severity), ("spec/unknown-access-mode", 1));
    assert!(problem.message.contains("did you mean `single-node-writer`?"), "{problem:?}");
    // The class or the defaults through which a volume has the value are other places.
    assert!(!problem.related_information.is_empty(), "{problem:?}");
}

#[test]
fn the_first_of_two_declarations_is_another_place() {
    let again = "variable \"env\" {\n}\n";
    let workspace = workspace(&[("a.hcl", DECLARATIONS), ("b.hcl", again)]);
    let found = published(&workspace, &analyse(&workspace));
    let problems = found.get(&path("b.hcl")).expect("the second one is a problem");
    let shown = serde_json::to_value(&problems[0]).unwrap();
    let place = &shown["relatedInformation"][0];
    assert_eq!(place["location"]["uri"], "file:///folder/a.hcl", "{shown}");
    assert_eq!(place["location"]["range"]["start"]["line"], 0);
    assert_eq!(place["message"], "first here");
}

/// A file of all runs has its problems once.
#[test]
fn a_problem_of_several_runs_is_shown_once() {
    let class = "class \"fast\" {\n  plugin_id = \"x\"\n  capcity_min = \"1GiB\"\n}\n";
    let of_set = |set: &str| format!("set = \"{set}\"\n{VOLUMES}").replace("${var.env}-", set);
    let (one, two) = (of_set("one"), of_set("two"));
    let files = [("c.hcl", class), ("one/v.hcl", &one), ("two/v.hcl", &two)];
    let found = problems(&workspace(&files));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("c.hcl:2:2 spec/unknown-field"), "{found:?}");
}

/// Everything else of the volume is checked.
#[test]
fn a_variable_without_a_value_is_no_problem_and_hides_none() {
    let volume = VOLUMES.replace("var.env", "var.unset");
    let files = [("a.hcl", DECLARATIONS), ("b.hcl", volume.as_str())];
    assert_eq!(problems(&workspace(&files)), Vec::<String>::new());
    let volume = volume.replace("10GiB", "10XiB");
    let files = [("a.hcl", DECLARATIONS), ("b.hcl", volume.as_str())];
    let found = problems(&workspace(&files));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("b.hcl:10:17 spec/invalid-size"), "{found:?}");
}

#[test]
fn a_text_that_does_not_parse_makes_no_problems_elsewhere() {
    let broken = format!("{DECLARATIONS}class \"x\" {{\n");
    let files = [("a.hcl", broken.as_str()), ("b.hcl", VOLUMES)];
    let found = problems(&workspace(&files));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("a.hcl:"), "{found:?}");
}

#[test]
fn directories_with_sets_are_runs_of_their_own() {
    let declared = "class \"fast\" {\n  plugin_id = \"x\"\n}\n";
    let of_set = |set: &str| format!("set = \"{set}\"\n{VOLUMES}").replace("${var.env}-", set);
    let (one, two) = (of_set("one"), of_set("two"));
    let files = [("c.hcl", declared), ("one/v.hcl", &one), ("two/v.hcl", &two)];
    assert_eq!(problems(&workspace(&files)), Vec::<String>::new());
    let twice = [("c.hcl", declared), ("one/v.hcl", &one), ("one/w.hcl", &one)];
    let found = problems(&workspace(&twice));
    assert!(found.iter().any(|one| one.contains("spec/duplicate-volume")), "{found:?}");
}

#[test]
fn the_files_of_other_programs_are_left_alone() {
    let files = [
        ("agent.hcl", "server {\n  enabled = true\n}\n"),
        ("compose.yaml", "services:\n  a: {image: x}\n"),
        ("list.json", "[1, 2]"),
        ("b.hcl", "volume \"a\" {\n"),
    ];
    let found = problems(&workspace(&files));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("b.hcl:"), "{found:?}");
}

#[test]
fn jobs_are_checked() {
    let job = "job \"a\" {\n  group \"g\" {\n    count = -1\n  }\n}\n";
    let found = problems(&workspace(&[("a.nomad.hcl", job)]));
    assert!(found.iter().any(|one| one.contains("job/")), "{found:?}");
}

#[test]
fn keys_are_suggested_for_their_place_in_every_syntax() {
    let files = [("a.hcl", DECLARATIONS)];
    let in_volume = labels(&files, "b.hcl", "volume \"a\" {\n  cap|\n}\n");
    assert!(in_volume.iter().any(|text| text == "capacity_min = "), "{in_volume:?}");
    assert!(in_volume.iter().any(|text| text == "capability {"));
    assert!(in_volume.iter().any(|text| text == "for_each = "));
    let yaml = labels(&files, "b.yaml", "volume:\n  a:\n    capability:\n      - acc|\n");
    assert_eq!(yaml, ["access_mode: ", "attachment_mode: "]);
    let json = labels(&files, "b.json", "{\"class\": {\"a\": {\"cap|\"}}}");
    assert!(json.iter().any(|text| text == "capacity_max"), "{json:?}");
    assert!(!json.iter().any(|text| text == "external_id"));
    let top = labels(&[], "b.hcl", "volume \"a\" {\n}\nvar|");
    assert!(!top.iter().any(|text| text.contains("plugin_id")), "{top:?}");
    assert!(top.iter().any(|text| text == "variable \""), "{top:?}");
}

#[test]
fn values_are_suggested_with_the_quotes_that_they_lack() {
    let files = [("a.hcl", DECLARATIONS)];
    for (name, text, expected) in [
        ("b.hcl", "volume \"a\" {\n capability {\n access_mode = |", "\"single-node-writer\""),
        ("b.hcl", "volume \"a\" {\n capability {\n access_mode = \"|\"\n", "single-node-writer"),
        ("b.hcl", "volume \"a\" {\n class = |", "\"fast\""),
        ("b.hcl", "volume \"a\" {\n class = \"|\"", "fast"),
        ("b.hcl", "volume \"a\" {\n protect = |", "true"),
        ("b.hcl", "variable \"a\" {\n type = |", "list(string)"),
        ("b.yaml", "volume:\n  a:\n    class: |", "fast"),
        ("b.yaml", "volume: {a: {capability: [{attachment_mode: |}]}}", "file-system"),
        ("b.json", "{\"volume\": {\"a\": {\"class\": |", "\"fast\""),
        ("b.json", "{\"volume\": {\"a\": {\"class\": \"|\"", "fast"),
    ] {
        let found = labels(&files, name, text);
        assert!(found.iter().any(|text| text == expected), "{text}: {found:?}");
    }
}

#[test]
fn names_and_functions_are_suggested_in_expressions_only() {
    let files = [("a.hcl", DECLARATIONS)];
    for (name, text) in [
        ("b.hcl", "volume \"a\" {\n  name = var.|"),
        ("b.hcl", "volume \"a\" {\n  name = \"x-${|"),
        ("b.yaml", "volume:\n  a:\n    name: x-${v|}"),
        ("b.json", "{\"volume\": {\"a\": {\"name\": \"${|}\"}}}"),
    ] {
        let found = labels(&files, name, text);
        for expected in ["var.env", "local.zone", "each.key", "join("] {
            assert!(found.iter().any(|text| text == expected), "{text}: {found:?}");
        }
    }
    assert_eq!(labels(&files, "b.hcl", "volume \"a\" {\n  name = \"x-|"), Vec::<String>::new());
    let secret = labels(&files, "b.hcl", "volume \"a\" {\n  secrets {\n    key = |");
    assert!(secret.iter().any(|text| text == "nomad_var(\""), "{secret:?}");
    // What the broken text itself declares counts too.
    let own = labels(&[], "b.hcl", "variable \"own\" {\n}\nvolume \"a\" {\n  name = var.|");
    assert!(own.iter().any(|text| text == "var.own"), "{own:?}");
}

#[test]
fn what_is_under_the_cursor_is_explained() {
    let files = [("a.hcl", DECLARATIONS)];
    for (name, text, expected) in [
        ("b.hcl", "volume \"a\" {\n  capacity|_min = 1\n}\n", "within the limits of the volume"),
        ("b.yaml", "volume:\n  a:\n    ca|pacity_min: 1\n", "Minimum size"),
        ("b.json", "{\"volume\": {\"a\": {\"capacity|_min\": 1}}}", "Minimum size"),
        ("b.hcl", "volume \"a\" {\n  count|  = 1\n}\n", "Number of volumes"),
        ("b.hcl", "volume \"a\" {\n  name = var.e|nv\n}\n", "Value: `\"dev\"`, from its default"),
        ("b.hcl", "volume \"a\" {\n  name = var.un|set\n}\n", "It has no value here"),
        ("b.hcl", "volume \"a\" {\n  name = var.k|ey\n}\n", "sensitive, and not shown"),
        ("b.hcl", "volume \"a\" {\n  name = local.z|one\n}\n", "Declared at a.hcl:15"),
        ("b.hcl", "volume \"a\" {\n  class = \"fa|st\"\n}\n", "**fast**: class"),
        ("b.hcl", "volume \"a\" {\n  name = jo|in(\"-\", [])\n}\n", "separator: text"),
        ("b.hcl", "volume \"a\" {\n  name = each.k|ey", "item of `for_each`"),
        ("b.hcl", "volume \"a\" {\n  name = var.e|nv", "dev or prod"),
    ] {
        let found = hovered(&files, name, text);
        assert!(found.contains(expected), "{text}: {found}");
        assert!(!found.contains("hush-hush"), "{text}: {found}");
    }
    for text in ["volume \"a\" {\n  name = \"te|xt\"\n}\n", "# com|ment\n", "unknown_k|ey = 1\n"] {
        assert_eq!(hovered(&files, "b.hcl", text), "", "{text}");
    }
}

#[test]
fn a_name_leads_to_its_declaration_and_to_its_uses() {
    let mut workspace = workspace(&[("a.hcl", DECLARATIONS), ("b.hcl", VOLUMES)]);
    let position = open_marked(&mut workspace, "c.yaml", "volume:\n  x:\n    name: ${var.e|nv}\n");
    let analysis = analyse(&workspace);
    let shown = |found: Vec<super::protocol::Location>| -> Vec<String> {
        let name = |uri: &str| uri.rsplit('/').next().unwrap_or_default().to_owned();
        let place = |range: Range| format!("{}:{}", range.start.line, range.start.character);
        found.iter().map(|one| format!("{}:{}", name(&one.uri), place(one.range))).collect()
    };
    let at = |name: &str, position| definitions(&workspace, &analysis, &path(name), position);
    assert_eq!(shown(at("c.yaml", position)), ["a.hcl:0:9"]);
    let class = Position { line: 2, character: 13 };
    assert_eq!(shown(at("b.hcl", class)), ["a.hcl:16:6"]);
    let all = uses(&workspace, &analysis, &path("c.yaml"), position, true);
    assert_eq!(shown(all), ["a.hcl:0:9", "a.hcl:14:15", "b.hcl:9:20", "c.yaml:2:12"]);
    let used = uses(&workspace, &analysis, &path("c.yaml"), position, false);
    assert_eq!(used.len(), 3);
}

#[test]
fn a_file_is_formatted_as_by_the_command_and_a_broken_one_is_left_alone() {
    let untidy = "volume \"a\" {\nname   = \"x\"\n}\n";
    let workspace = workspace(&[
        ("a.hcl", untidy),
        ("b.hcl", "volume \"a\" {\nname   = \n"),
        ("c.yaml", "volume:   {}\n"),
        ("d.hcl", VOLUMES),
    ]);
    let edits = formatting(&workspace, &path("a.hcl"));
    assert_eq!(edits.len(), 1);
    assert_eq!((edits[0].range.start.line, edits[0].range.end.line), (1, 2));
    assert_eq!(edits[0].new_text, "  name = \"x\"\n");
    for name in ["b.hcl", "c.yaml", "d.hcl", "none.hcl"] {
        assert_eq!(formatting(&workspace, &path(name)), [], "{name}");
    }
}

#[test]
fn a_suggested_replacement_is_a_quick_fix() {
    let text = VOLUMES.replace("single-node-writer", "single-node-writter");
    let workspace = workspace(&[("a.hcl", DECLARATIONS), ("b.hcl", &text)]);
    let analysis = analyse(&workspace);
    let at = |line, character| Position { line, character };
    let here = Range { start: at(4, 25), end: at(4, 25) };
    let fixes = quick_fixes(&workspace, &analysis, &path("b.hcl"), &here);
    assert_eq!(fixes.len(), 1, "{fixes:?}");
    let edit = &fixes[0]["edit"]["changes"]["file:///folder/b.hcl"][0];
    assert!(edit["newText"].as_str().unwrap().contains("single-node-writer"), "{edit}");
    let elsewhere = Range { start: at(1, 0), end: at(1, 0) };
    assert_eq!(quick_fixes(&workspace, &analysis, &path("b.hcl"), &elsewhere).len(), 0);
}

/// A secret of a file is in no answer, wherever the cursor is.
#[test]
fn no_answer_has_a_secret() {
    let text = "volume \"a\" {\n  plugin_id = \"p\"\n  capacity_min = \"1x\"\n  secrets {\n    key = \"hush-hush\"\n  }\n}\n";
    let workspace = workspace(&[("a.hcl", DECLARATIONS), ("b.hcl", text)]);
    let analysis = analyse(&workspace);
    let shown = format!("{:?}", published(&workspace, &analysis));
    assert!(shown.contains("spec/") && !shown.contains("hush-hush"), "{shown}");
    for (name, text) in [("a.hcl", DECLARATIONS), ("b.hcl", text)] {
        let lines = Lines::new(text, Encoding::Utf16);
        for offset in 0..text.len() {
            let position = lines.position(offset);
            let hover = hover(&workspace, &analysis, &path(name), position);
            let items = completions(&workspace, &analysis, &path(name), position);
            let range = Range { start: position, end: position };
            let fixes = quick_fixes(&workspace, &analysis, &path(name), &range);
            let shown = format!("{hover:?}{items:?}{fixes:?}");
            assert!(!shown.contains("hush-hush"), "{name} at {offset}: {shown}");
        }
    }
}

/// A change of a text: where it starts and ends in parts of 1000, and what is there then.
fn change() -> impl Strategy<Value = (usize, usize, String)> {
    let text = prop_oneof![
        Just(String::new()),
        "[a-z\n =\"{}$ä🦀]{0,8}",
        Just("${var.env}".to_owned()),
        Just("volume \"x\" {\n".to_owned()),
    ];
    (0..=1000usize, 0..=1000usize, text)
}

fn ranged(text: &str, (from, to, new): &(usize, usize, String), encoding: Encoding) -> TextChange {
    let at = |part: usize| super::positions::floor(text, text.len() * part / 1000);
    let (start, end) = (at(*from).min(at(*to)), at(*from).max(at(*to)));
    let range = Lines::new(text, encoding).range(&(start..end));
    TextChange { range: Some(range), text: new.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The way to a text does not matter: problems are those of the final text, whatever was asked in between, and no offset
    /// of it makes an answer fail.
    #[test]
    fn edits_lead_to_the_problems_of_the_final_text(
        changes in prop::collection::vec(change(), 0..6),
        is_utf8 in any::<bool>(),
        cut in 0..=1000usize,
    ) {
        let encoding = if is_utf8 { Encoding::Utf8 } else { Encoding::Utf16 };
        let mut edited = workspace(&[("a.hcl", DECLARATIONS), ("b.hcl", VOLUMES)]);
        edited.encoding = encoding;
        for (version, change) in changes.iter().enumerate() {
            let (text, _) = edited.text(&path("b.hcl")).unwrap();
            let change = ranged(&text, change, encoding);
            edited.change(&path("b.hcl"), &[change], i64::try_from(version).ok());
            prop_assert!(published(&edited, &analyse(&edited)).len() <= 2);
        }
        let (text, _) = edited.text(&path("b.hcl")).unwrap();
        let fresh = workspace(&[("a.hcl", DECLARATIONS), ("b.hcl", &text)]);
        prop_assert_eq!(problems(&edited).len(), problems(&fresh).len());
        let mut in_other_units = workspace(&[("a.hcl", DECLARATIONS), ("b.hcl", &text)]);
        in_other_units.encoding = encoding;
        prop_assert_eq!(
            published(&edited, &analyse(&edited)),
            published(&in_other_units, &analyse(&in_other_units))
        );
        // One change of everything, cut in two, leads to the same.
        let mut split = workspace(&[("a.hcl", DECLARATIONS), ("b.hcl", "")]);
        split.encoding = encoding;
        let cut = super::positions::floor(&text, text.len() * cut / 1000);
        let start = TextChange { range: None, text: text[..cut].to_owned() };
        let end = Lines::new(&text[..cut], encoding).range(&(cut..cut));
        let rest = TextChange { range: Some(end), text: text[cut..].to_owned() };
        // A line end is one place: it is not cut.
        prop_assume!(!(text[..cut].ends_with('\r') && text[cut..].starts_with('\n')));
        split.change(&path("b.hcl"), &[start, rest], None);
        prop_assert_eq!(split.text(&path("b.hcl")).unwrap().0, text.clone());
        prop_assert_eq!(problems(&split), problems(&in_other_units));
        let analysis = analyse(&edited);
        let lines = Lines::new(&text, encoding);
        for offset in 0..=text.len() {
            let position = lines.position(offset);
            let of = path("b.hcl");
            hover(&edited, &analysis, &of, position);
            completions(&edited, &analysis, &of, position);
            definitions(&edited, &analysis, &of, position);
        }
    }

    #[test]
    fn any_text_of_any_syntax_has_answers(text in "(?s).{0,60}", syntax in 0..3usize) {
        let name = ["a.hcl", "a.yaml", "a.json"][syntax];
        let workspace = workspace(&[(name, &text)]);
        let analysis = analyse(&workspace);
        published(&workspace, &analysis);
        formatting(&workspace, &path(name));
        let lines = Lines::new(&text, Encoding::Utf16);
        for offset in 0..=text.len() {
            hover(&workspace, &analysis, &path(name), lines.position(offset));
            completions(&workspace, &analysis, &path(name), lines.position(offset));
        }
        prop_assert!(Syntax::from_path(&path(name)).is_some());
    }
}
