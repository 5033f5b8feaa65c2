//! Certificates for tests.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use testkit::postgres::ServerCertificates;

/// A certificate authority.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate that is not an authority's, and its key, in PEM format.
pub(super) struct Leaf {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for these host names and addresses.
    pub(super) fn leaf(&self, names: &[&str], common_name: &str) -> Leaf {
        self.issue(&params(names, common_name))
    }

    /// Issues a certificate that is valid from the beginning of one year to the beginning of another.
    pub(super) fn dated(&self, names: &[&str], from: i32, to: i32) -> Leaf {
        let mut params = params(names, "dated");
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        self.issue(&params)
    }

    fn issue(&self, params: &CertificateParams) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap().pem();
        Leaf { certificate, key: key.serialize_pem() }
    }

    /// The files of a server with this certificate, which accepts client certificates of this
    /// authority.
    pub(super) fn server(&self, leaf: &Leaf) -> ServerCertificates {
        ServerCertificates {
            certificate: leaf.certificate.clone(),
            key: leaf.key.clone(),
            client_ca: self.pem(),
        }
    }
}

fn params(names: &[&str], common_name: &str) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params
}
