use super::*;

#[test]
fn identifiers_are_unique_and_texts_are_sentences() {
    for (at, code) in Code::ALL.iter().enumerate() {
        assert_eq!(Code::parse(code.as_str()), Some(*code), "{code} appears twice");
        assert!(Code::ALL[..at].iter().all(|other| other.as_str() != code.as_str()), "{code}");
        for sentence in [code.cause(), code.remedy()] {
            assert!(sentence.ends_with('.'), "{code}: {sentence}");
        }
        assert!(code.remedy().is_char_boundary(1), "{code}");
    }
}
