package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"time"
)

// authority is the lab's certificate authority.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

// credential is a certificate and its key, in PEM.
type credential struct{ cert, key []byte }

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the authority's key: %w", err)
	}
	template := certTemplate("vipod lab")
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading back the authority: %w", err)
	}
	return &authority{key: key, cert: cert, pem: pemBlock("CERTIFICATE", der)}, nil
}

func certTemplate(name string, groups ...string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // crypto/rand does not fail
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(30 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

// client makes the credential of an API user.
func (a *authority) client(user string, groups ...string) (credential, error) {
	template := certTemplate(user, groups...)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

// server makes the credential of a server with these names and addresses.
func (a *authority) server(name string, dnsNames []string, addrs []netip.Addr) (credential, error) {
	template := certTemplate(name)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = dnsNames
	for _, addr := range addrs {
		template.IPAddresses = append(template.IPAddresses, net.IP(addr.AsSlice()))
	}
	return a.sign(template)
}

func (a *authority) sign(template *x509.Certificate) (credential, error) {
	name := template.Subject.CommonName
	key, keyPEM, err := newKey()
	if err != nil {
		return credential{}, fmt.Errorf("making the key of %s: %w", name, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return credential{}, fmt.Errorf("signing the certificate of %s: %w", name, err)
	}
	return credential{cert: pemBlock("CERTIFICATE", der), key: keyPEM}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return key, pemBlock("PRIVATE KEY", der), err
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// apiNames are what the API server may be called: by its own address, by a
// node's relay, by a virtual IP, and by what pods call it.
func apiNames() (dnsNames []string, addrs []netip.Addr) {
	dnsNames = []string{
		"localhost", "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}
	addrs = []netip.Addr{
		netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback(),
		Services4.Addr().Next(), Services6.Addr().Next(),
	}
	add := func(a Addrs) { addrs = append(addrs, a.V4, a.V6) }
	add(APIAddrs())
	add(ControlPlaneVIP())
	for i := 1; i <= MaxNodes; i++ {
		add(lanAddrs(10 + i))
	}
	for i := range VIPs {
		add(VIP(i))
	}
	return dnsNames, addrs
}

// makeCredentials fills the pki directory.
func (l *Lab) makeCredentials() error {
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	dnsNames, addrs := apiNames()
	server, err := ca.server("kube-apiserver", dnsNames, addrs)
	if err != nil {
		return err
	}
	signer, signerPEM, err := newKey()
	if err != nil {
		return fmt.Errorf("making the key for tokens: %w", err)
	}
	verifier, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return fmt.Errorf("encoding the key for tokens: %w", err)
	}
	files := map[string][]byte{
		"ca.crt":     ca.pem,
		"server.crt": server.cert, "server.key": server.key,
		"tokens.key": signerPEM, "tokens.pub": pemBlock("PUBLIC KEY", verifier),
	}
	for name, groups := range map[string][]string{
		"admin": {"system:masters"}, "system:kube-proxy": nil,
	} {
		user, err := ca.client(name, groups...)
		if err != nil {
			return err
		}
		files[name+".kubeconfig"] = kubeconfig{
			server: apiURL(), ca: ca.pem, credential: user,
		}.yaml()
	}
	for name, data := range files {
		if err := os.WriteFile(l.path("pki", name), data, 0o600); err != nil {
			return fmt.Errorf("writing credentials: %w", err)
		}
	}
	return nil
}
