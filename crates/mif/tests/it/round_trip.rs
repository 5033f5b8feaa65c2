//! Reading what was written gives the same memory, in each format and across formats.

use mif::{Memory, Value};
use proptest::{prelude::*, test_runner::Config};

use crate::generate;

/// Cases per property; a soak run sets `ATLATL_SOAK_CASES`.
fn config() -> Config {
    const CASES: u32 = 256;
    let soak = std::env::var("ATLATL_SOAK_CASES").ok().and_then(|cases| cases.parse().ok());
    Config { cases: soak.unwrap_or(CASES), failure_persistence: None, ..Config::default() }
}

fn memory() -> impl Strategy<Value = (Value, Memory)> {
    generate::memory().prop_map(|value| {
        let memory = Memory::from_value(&value).expect("a generated memory is valid");
        (value, memory)
    })
}

/// Equality of memories ignores the case of ids, so the text is compared as well.
fn same(left: &Memory, right: &Memory) -> Result<(), TestCaseError> {
    prop_assert_eq!(left, right);
    prop_assert_eq!(left.to_json(), right.to_json());
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn json_keeps_everything((value, memory) in memory()) {
        let read = Memory::from_json(&memory.to_json()).unwrap();
        same(&read, &memory)?;
        // Not only back to the same memory: the object itself is the one that came in.
        let written: Value = Value::Object(memory.at(mif::DetailLevel::Full));
        prop_assert_eq!(written, value);
    }

    #[test]
    fn pretty_json_reads_like_compact_json((value, memory) in memory()) {
        same(&Memory::from_json(&format!("{value:#}")).unwrap(), &memory)?;
    }

    #[test]
    fn json_ld_keeps_everything((_, memory) in memory()) {
        let text = memory.to_json_ld();
        let read = Memory::from_json_ld(&text).unwrap();
        same(&read, &memory)?;
        prop_assert_eq!(read.to_json_ld(), text);
    }

    #[test]
    fn markdown_keeps_everything((_, memory) in memory()) {
        let text = memory.to_markdown();
        let read = Memory::from_markdown(&text);
        prop_assert!(read.is_ok(), "{:?}\n{text}", read);
        let read = read.unwrap();
        same(&read, &memory)?;
        prop_assert_eq!(read.to_markdown(), text);
    }

    #[test]
    fn forms_can_be_chained((_, memory) in memory()) {
        let json = memory.to_json();
        let one = Memory::from_json(&json).unwrap();
        let two = Memory::from_json_ld(&one.to_json_ld()).unwrap();
        let three = Memory::from_markdown(&two.to_markdown()).unwrap();
        let four = Memory::from_json_ld(&three.to_json_ld()).unwrap();
        prop_assert_eq!(four.to_json(), json);
    }

    #[test]
    fn serde_agrees_with_the_text_form((_, memory) in memory()) {
        let text = serde_json::to_string(&[&memory]).unwrap();
        prop_assert_eq!(&text, &format!("[{}]", memory.to_json()));
        same(&serde_json::from_str::<Vec<Memory>>(&text).unwrap()[0], &memory)?;
    }

    #[test]
    fn any_content_comes_back_from_markdown(first in any::<char>(), rest in any::<String>()) {
        let content = format!("{first}{rest}");
        let memory = simple(&content);
        prop_assert_eq!(Memory::from_markdown(&memory.to_markdown()).unwrap().content, content);
    }

    #[test]
    fn no_damage_makes_a_reader_panic(
        (_, memory) in memory(),
        at in any::<prop::sample::Index>(),
        removed in 0_usize..20,
        inserted in generate::text(),
    ) {
        let damage = |text: String| {
            let mut characters: Vec<char> = text.chars().collect();
            let start = at.index(characters.len());
            let end = characters.len().min(start + removed);
            characters.splice(start..end, inserted.chars());
            characters.into_iter().collect::<String>()
        };
        let _ = Memory::from_json(&damage(memory.to_json()));
        let _ = Memory::from_json_ld(&damage(memory.to_json_ld()));
        let _ = Memory::from_markdown(&damage(memory.to_markdown()));
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in generate::text(), value in generate::any_json()) {
        for text in [&text, &value.to_string(), &format!("---\n{text}\n---\nx"), &format!("---\n{value}\n---\n")] {
            let _ = Memory::from_json(text);
            let _ = Memory::from_json_ld(text);
            let _ = Memory::from_markdown(text);
        }
    }
}

pub(crate) fn simple(content: &str) -> Memory {
    Memory::new(
        "018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b".parse().unwrap(),
        mif::MemoryType::Semantic,
        content,
        "2026-01-15T10:30:00Z".parse().unwrap(),
    )
    .unwrap()
}
