//! Enumerations that keep unknown names.

/// Gives an enum with a `Custom(String)` variant its names and its [`Part`](crate::fields::Part).
macro_rules! open_list {
    ($type:ident, $($variant:ident = $name:literal),+) => {
        impl $type {
            /// Returns the name as JSON and front matter write it.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Custom(name) => name,
                }
            }
        }

        impl From<&str> for $type {
            /// Recognises the specification's names and keeps any other as custom.
            fn from(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)+
                    _ => Self::Custom(name.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

/// The same, for lists whose names are spelled alike in every form.
macro_rules! open_list_part {
    ($($type:ident),+) => {$(
        impl crate::fields::Part for $type {
            fn read(source: crate::fields::Located) -> Result<Self, crate::error::MifError> {
                source.text().map(Self::from)
            }

            fn write(&self, _: crate::error::Form) -> crate::value::Value {
                crate::value::Value::String(self.as_str().to_owned())
            }
        }
    )+};
}

pub(crate) use {open_list, open_list_part};
