package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/deploy/lab"
)

// refusals are faults in which the API server answers, but not what it should.
func refusals() []Case {
	hold := LeaseDuration + 2*time.Second
	return []Case{
		{Name: "API answers 503 to the owner", Want: moves, Hold: hold, Fault: refuse(http.StatusServiceUnavailable)},
		{Name: "API answers 429 to the owner", Long: true, Want: moves, Hold: hold, Fault: refuse(http.StatusTooManyRequests)},
		{Name: "API answers 503 to the owner for less than D", Long: true, Want: stays, Hold: 1500 * time.Millisecond, Settle: LeaseDuration,
			Fault: refuse(http.StatusServiceUnavailable)},
		{Name: "etcd hangs for longer than D", Long: true, Want: back, Faulty: everyNode, Hold: hold, Fault: pauseEtcd},
		{Name: "ServiceAccount deleted, then new tokens", Faulty: everyNode, Hold: hold, Fault: revoke,
			Want: Expectation{Outcome: Back, Bound: 2 * time.Second, Hands: 1, Fence: 2 * LeaseDuration}},
	}
}

// refuse takes the owner's way to the API server away and puts a server there
// that answers every request with a status.
func refuse(status int) func(context.Context, *World) error {
	return func(ctx context.Context, w *World) error {
		if err := w.StopRelay(ctx, w.Owner); err != nil {
			return err
		}
		var listener net.Listener
		err := w.InNS(w.Owner, func() (err error) {
			listener, err = net.Listen("tcp", fmt.Sprintf(":%d", lab.APIPort))
			return err
		})
		if err != nil {
			return fmt.Errorf("refusing requests: %w", err)
		}
		server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(status)
		})}
		pki := filepath.Dir(w.AdminKubeconfig())
		done := make(chan error, 1)
		go func() {
			done <- server.ServeTLS(listener, filepath.Join(pki, "server.crt"), filepath.Join(pki, "server.key"))
		}()
		w.After(func(ctx context.Context) error {
			err := server.Close()
			if ended := <-done; !errors.Is(ended, http.ErrServerClosed) {
				err = errors.Join(err, ended)
			}
			return errors.Join(err, w.StartRelay(ctx, w.Owner))
		})
		return nil
	}
}

func pauseEtcd(_ context.Context, w *World) error {
	w.After(func(context.Context) error { return w.SignalProgram("cp", "etcd", unix.SIGCONT) })
	return w.SignalProgram("cp", "etcd", unix.SIGSTOP)
}

// revoke makes every token of vipod's worthless, and writes new ones in the
// end, as a kubelet does.
func revoke(ctx context.Context, w *World) error {
	accounts := w.Client().CoreV1().ServiceAccounts(lab.Namespace)
	w.After(func(ctx context.Context) error {
		for _, node := range w.Nodes() {
			lifetime := int64(24 * 3600)
			answer, err := accounts.CreateToken(ctx, lab.ServiceAccount,
				&authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &lifetime}}, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("making a token for %s: %w", node, err)
			}
			token := filepath.Join(filepath.Dir(w.Kubeconfig(node)), "token")
			if err := os.WriteFile(token, []byte(answer.Status.Token), 0o400); err != nil {
				return fmt.Errorf("writing the token of %s: %w", node, err)
			}
		}
		return nil
	})
	if err := accounts.Delete(ctx, lab.ServiceAccount, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting the ServiceAccount: %w", err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: lab.ServiceAccount}}
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making the ServiceAccount again: %w", err)
	}
	return nil
}
