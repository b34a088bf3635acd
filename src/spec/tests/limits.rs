//! Input that tries to exhaust memory or the stack is refused.

use super::harness::{ReadResult, read};
use crate::spec::syntax::Syntax;

/// Reads on a stack of 2 MiB, the default of a thread, so unbounded recursion fails the test.
/// Returns the codes.
fn codes(text: String, syntax: Syntax) -> Vec<&'static str> {
    let reading = move || {
        let ReadResult { diagnostics, .. } = read(&text, syntax);
        diagnostics
            .iter()
            .map(|messages| messages.code.as_str())
            .collect()
    };
    let thread = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(reading);
    thread.unwrap().join().unwrap()
}

#[test]
fn deep_nesting_is_an_error_in_every_syntax() {
    const DEEP: usize = 100_000;
    for (text, syntax) in [
        (format!("id = {}", "[".repeat(DEEP)), Syntax::Hcl),
        (
            format!("id = {}{}", "[".repeat(DEEP), "]".repeat(DEEP)),
            Syntax::Hcl,
        ),
        (format!("id = {}", "(".repeat(DEEP)), Syntax::Hcl),
        (
            format!("id = {}{}", "{ a = ".repeat(60), "(".repeat(DEEP)),
            Syntax::Hcl,
        ),
        (
            format!("id = {}1{}", "f(".repeat(DEEP), ")".repeat(DEEP)),
            Syntax::Hcl,
        ),
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
        (
            (0..2000)
                .map(|at| format!("{}a:\n", " ".repeat(at)))
                .collect(),
            Syntax::Yaml,
        ),
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
    assert_eq!(
        codes(format!("id = {}", "[".repeat(65)), Syntax::Hcl),
        ["spec/too-deep"]
    );
    assert_eq!(
        codes(format!("{{\"id\": {}", "[".repeat(65)), Syntax::Json),
        ["spec/too-deep"]
    );
    assert_eq!(
        codes(format!("id: {}", "[".repeat(66)), Syntax::Yaml),
        ["spec/too-deep"]
    );
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
    assert_eq!(
        codes(format!("a0: &a0 [x]\n{levels}"), Syntax::Yaml),
        ["spec/too-deep"]
    );
    assert_eq!(codes("a: &a [*a]".into(), Syntax::Yaml), ["spec/syntax"]);
}
