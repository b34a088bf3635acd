//! Input that tries to exhaust memory or the stack is refused.

use super::harness::{ReadResult, read};
use crate::syntax::Syntax;
use crate::tree::MAX_VALUES;
use crate::volume_spec::MAX_VOLUMES;
use nomad_csi_testing::few_or_many;

/// Reads on a stack of 2 MiB, the default of a thread, so unbounded recursion fails the test.
/// Returns the codes.
fn codes(text: String, syntax: Syntax) -> Vec<&'static str> {
    let reading = move || {
        let ReadResult { diagnostics, .. } = read(&text, syntax);
        diagnostics.iter().map(|messages| messages.code.as_str()).collect()
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(reading);
    thread.unwrap().join().unwrap()
}

#[test]
fn deep_nesting_is_an_error_in_every_syntax() {
    const DEEP: usize = 100_000;
    for (text, syntax) in [
        (format!("id = {}", "[".repeat(DEEP)), Syntax::Hcl),
        (format!("id = {}{}", "[".repeat(DEEP), "]".repeat(DEEP)), Syntax::Hcl),
        (format!("id = {}", "(".repeat(DEEP)), Syntax::Hcl),
        (format!("id = {}{}", "{ a = ".repeat(60), "(".repeat(DEEP)), Syntax::Hcl),
        (format!("id = {}1{}", "f(".repeat(DEEP), ")".repeat(DEEP)), Syntax::Hcl),
        (format!("id = {}1", "-".repeat(DEEP)), Syntax::Hcl),
        (format!("id = {}", "!".repeat(DEEP)), Syntax::Hcl),
        (format!("id = \"{}", "${".repeat(DEEP)), Syntax::Hcl),
        ("a { ".repeat(DEEP), Syntax::Hcl),
        (format!("id = {}", "{ a = ".repeat(DEEP)), Syntax::Hcl),
        (format!("{{\"id\": {}", "[".repeat(DEEP)), Syntax::Json),
        ("{\"a\":".repeat(DEEP), Syntax::Json),
        (format!("id: {}", "[".repeat(DEEP)), Syntax::Yaml),
        (format!("id: {}", "{a: ".repeat(DEEP)), Syntax::Yaml),
        (format!("id: {}", "- ".repeat(DEEP)), Syntax::Yaml),
        (format!("- {}", "- ".repeat(DEEP)), Syntax::Yaml),
        ("? ".repeat(DEEP), Syntax::Yaml),
        ((0..2000).map(|at| format!("{}a:\n", " ".repeat(at))).collect(), Syntax::Yaml),
    ] {
        let start: String = text.chars().take(20).collect();

        let codes = codes(text, syntax);
        assert!(!codes.is_empty(), "{start}");
    }
}

#[test]
fn nesting_up_to_the_limit_is_accepted() {
    let text =
        "volume \"a\" { topology_request { required { topology { segments { zone = \"a\" } } } } }";
    assert!(!codes(text.into(), Syntax::Hcl).contains(&"spec/too-deep"));
    assert_eq!(codes(format!("id = {}", "[".repeat(65)), Syntax::Hcl), ["spec/too-deep"]);
    assert_eq!(codes(format!("{{\"id\": {}", "[".repeat(65)), Syntax::Json), ["spec/too-deep"]);
    assert_eq!(codes(format!("id: {}", "[".repeat(66)), Syntax::Yaml), ["spec/too-deep"]);
}

#[test]
fn excessive_alias_expansion_is_refused() {
    let list = |level: usize| {
        let inner = vec![format!("*a{}", level - 1); 9].join(", ");
        format!("a{level}: &a{level} [{inner}]\n")
    };
    let levels: String = (1..10).map(list).collect();
    let text = format!("a0: &a0 [x, x, x, x, x, x, x, x, x]\n{levels}");
    assert_eq!(codes(text, Syntax::Yaml), ["spec/too-many-aliases"]);
    let deeper = |level: usize| format!("a{level}: &a{level} [*a{}]\n", level - 1);
    let levels: String = (1..1000).map(deeper).collect();
    assert_eq!(codes(format!("a0: &a0 [x]\n{levels}"), Syntax::Yaml), ["spec/too-deep"]);
    assert_eq!(codes("a: &a [*a]".into(), Syntax::Yaml), ["spec/syntax"]);
}

/// Returns JSON of this many values and keys: a key, its list, and numbers.
fn values(count: usize) -> String {
    format!("{{\"a\":[{}1]}}", "1,".repeat(count - 3))
}

#[test]
fn a_file_has_a_limit_of_values() {
    let too_many = ["spec/too-many-values"];
    assert_eq!(codes(values(MAX_VALUES + 1), Syntax::Json), too_many);
    let labels = format!("{}{{}}", "a ".repeat(MAX_VALUES + 1));
    assert_eq!(codes(labels, Syntax::Hcl), too_many);
    // An anchored list is kept twice, and every list around it contains it.
    let list = "x,".repeat(20_000);
    let nested: String = (0..60).map(|at| format!("&a{at} [")).collect();
    let text = format!("b: {nested}{list}{}", "]".repeat(60));
    assert_eq!(codes(text, Syntax::Yaml), too_many);
}

/// Without optimization, files at the limit are read for half a minute.
#[test]
fn a_file_at_the_limit_of_values_is_read() {
    let (length, too_many) =
        few_or_many((20_000, None), (MAX_VALUES, Some("spec/too-many-values")));
    assert_eq!(codes(values(length), Syntax::Json), ["spec/unknown-field"]);
    let list = format!("a = [{}]", "1,".repeat(length - 1));
    assert_eq!(codes(list, Syntax::Hcl), [too_many.unwrap_or("spec/unknown-field")]);
    let text = format!("b:\n{}", "- 1\n".repeat(length));
    assert_eq!(codes(text, Syntax::Yaml), [too_many.unwrap_or("spec/unknown-field")]);
}

#[test]
fn an_expression_has_a_limit_of_bytes() {
    let of = |length: usize| {
        let text = format!("a = f(\"{}\")", "x".repeat(length - "f(\"\")".len()));
        codes(text, Syntax::Hcl)
    };
    const MOST: usize = 256 << 10;
    assert_eq!(of(MOST), ["spec/expression", "spec/unknown-field"]);
    assert_eq!(of(MOST + 1), ["spec/syntax"]);
}

#[test]
fn a_file_has_a_limit_of_volumes() {
    let of = |count: usize| {
        let volumes =
            (0..count).map(|at| format!("\"{at}\":{{\"type\":\"csi\",\"plugin_id\":\"p\"}},"));
        let text = format!("{{\"volume\":{{{}\"//\":1}}}}", volumes.collect::<String>());
        let read = read(&text, Syntax::Json);
        let codes: Vec<_> = read.diagnostics.iter().map(|one| one.code.as_str()).collect();
        (read.specs.len(), codes)
    };
    assert_eq!(of(MAX_VOLUMES), (MAX_VOLUMES, vec![]));
    let too_many = vec!["spec/too-many-volumes"];
    assert_eq!(of(MAX_VOLUMES + 2), (MAX_VOLUMES, too_many));
}
