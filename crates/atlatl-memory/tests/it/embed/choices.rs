//! The configuration values of the embedder, and what they select.

use std::path::Path;

use atlatl_memory::embed::{
    EmbedderChoice, EmbeddingEndpoint, InvalidEmbedderChoice, InvalidEndpoint, open,
};

fn parse(text: &str) -> Result<EmbedderChoice, InvalidEmbedderChoice> {
    text.parse()
}

#[test]
fn all_kinds_are_read_and_written_alike() {
    for text in [
        "auto",
        "none",
        "openai:https://models.example/v1#text-embedding-3-small",
        "openai:http://localhost:11434/v1#nomic-embed-text:v1.5",
        "openai:http://127.0.0.1:8080#m#1",
        "openai:http://[::1]:8080/v1#m",
        "openai:https://10.0.0.7:8443/a/b%20c#org/model",
        "local:/srv/models/minilm",
        "local:models/with:colon",
    ] {
        assert_eq!(parse(text).unwrap().to_string(), text);
    }
    let EmbedderChoice::OpenAi { endpoint, model } =
        parse("openai:https://models.example/v1/#m").unwrap()
    else {
        panic!("an endpoint was asked for")
    };
    assert_eq!((endpoint.as_str(), model.as_str()), ("https://models.example/v1", "m"));
    let EmbedderChoice::Local { directory } = parse("local:../m").unwrap() else {
        panic!("a directory was asked for")
    };
    assert_eq!(directory, Path::new("../m"));
}

#[test]
fn what_is_no_choice_says_what_would_be() {
    for text in [
        "",
        "None",
        "Auto",
        "auto:",
        "none ",
        "ollama:x",
        "openai",
        "local",
        "https://models.example#m",
    ] {
        assert_eq!(parse(text), Err(InvalidEmbedderChoice::Unknown), "{text}");
    }
    assert_eq!(parse("local:"), Err(InvalidEmbedderChoice::NoDirectory));
    for text in ["openai:https://models.example", "openai:https://models.example#", "openai:# "] {
        assert_eq!(parse(text), Err(InvalidEmbedderChoice::NoModel), "{text}");
    }
    assert_eq!(parse("openai:https://models.example#a\nb"), Err(InvalidEmbedderChoice::Model));
    let message = InvalidEmbedderChoice::Unknown.to_string();
    let expected = "an embedder is `auto`, `none`, `openai:{url}#{model}` or `local:{directory}`";
    assert_eq!(message, expected);
}

#[test]
fn texts_and_keys_go_nowhere_unencrypted() {
    use InvalidEndpoint::{Credentials, Host, Path, Plain, Scheme};
    for (url, why) in [
        ("models.example/v1", Scheme),
        ("ftp://models.example", Scheme),
        ("HTTP://127.0.0.1", Scheme),
        ("http://models.example/v1", Plain),
        ("http://10.0.0.7/v1", Plain),
        ("http://127.0.0.1.models.example", Plain),
        ("http://localhost.models.example", Plain),
        ("http://0.0.0.0:80", Plain),
        ("http://[::]:80", Plain),
        ("https://user:secret@models.example", Credentials),
        ("http://127.0.0.1@models.example", Credentials),
        ("http://127.0.0.1\\@models.example", Credentials),
        ("https://", Host),
        ("https:///v1", Host),
        ("https://mödels.example", Host),
        ("https://models.example:port", Host),
        ("https://models.example:", Host),
        ("https://models.example:+80", Host),
        ("https://models.example:65536", Host),
        ("https://models.example?x=1", Host),
        ("http://[127.0.0.1]", Host),
        ("https://[::1", Host),
        ("https://[::1]8080", Host),
        ("http://127.0.0.1\\.models.example", Host),
        ("https://models.example/v1?x=1", Path),
        ("https://models.example/v 1", Path),
        ("https://models.example/v1\r\nX: y", Path),
    ] {
        assert_eq!(url.parse::<EmbeddingEndpoint>(), Err(why), "{url}");
    }
}

#[test]
fn a_password_in_an_address_is_not_repeated() {
    let error = parse("openai:https://user:hunter2@models.example#m").unwrap_err();
    let told = format!("{error} {error:?} {:?}", std::error::Error::source(&error));
    assert!(!told.contains("hunter2"), "{told}");
}

#[test]
fn none_opens_nothing_and_neither_does_auto_without_a_model() {
    assert!(open(&EmbedderChoice::None, Some("key".to_owned())).unwrap().is_none());
    let resolved = EmbedderChoice::Auto.resolve(&[Path::new("/nowhere").to_owned()]);
    assert_eq!(resolved, EmbedderChoice::None);
    let local = parse("local:/srv/models/minilm").unwrap();
    assert_eq!(local.clone().resolve(&[]), local);
}

#[cfg(not(feature = "local"))]
#[test]
fn a_build_without_local_models_says_how_to_get_them() {
    let error = open(&parse("local:/srv/models/minilm").unwrap(), None).err().unwrap();
    let expected = "this program was built without local models; build it with `--features local`";
    assert_eq!(error.to_string(), expected);
}

#[cfg(not(feature = "openai"))]
#[test]
fn a_build_without_endpoints_says_how_to_get_them() {
    let error = open(&parse("openai:https://models.example#m").unwrap(), None).err().unwrap();
    assert_eq!(
        error.to_string(),
        "this program was built without endpoints; build it with `--features openai`"
    );
}
