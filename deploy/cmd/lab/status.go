package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/deploy/lab"
)

func setupStatus(flags *flag.FlagSet) func(context.Context, []string) error {
	name := nameFlag(flags)
	return func(ctx context.Context, args []string) error {
		if err := noArgs(args); err != nil {
			return err
		}
		l, err := lab.Open(*name, nil)
		if err != nil {
			return err
		}
		return printStatus(ctx, os.Stdout, l)
	}
}

func printStatus(ctx context.Context, out io.Writer, l *lab.Lab) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	roles, err := l.Roles()
	if err != nil {
		return err
	}
	fmt.Fprintln(table, "ROLE\tNAMESPACE\tADDRESSES")
	for _, role := range roles {
		fmt.Fprintf(table, "%s\t%s\t%s %s\n", role.Name, l.NS(role.Name), role.Addrs.V4, role.Addrs.V6)
	}
	procs, err := l.Processes()
	if err != nil {
		return err
	}
	fmt.Fprintln(table, "\nROLE\tPROCESS\tPID\tSTATE\tLOG")
	for _, p := range procs {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", p.Role, p.Name, p.PID, p.State(), p.Log)
	}
	if err := printServices(ctx, table, l); err != nil {
		_ = table.Flush()
		return err
	}
	return table.Flush()
}

func printServices(ctx context.Context, out io.Writer, l *lab.Lab) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list, err := l.Client().CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing Services: %w", err)
	}
	fmt.Fprintln(out, "\nSERVICE\tTYPE\tCLUSTER-IP\tADDRESS\tNODE")
	for _, s := range list.Items {
		fmt.Fprintf(out, "%s/%s\t%s\t%s\t%s\t%s\n", s.Namespace, s.Name, s.Spec.Type,
			strings.Join(s.Spec.ClusterIPs, " "), ingress(s), dash(s.Annotations["kube-vip.io/vipHost"]))
	}
	return nil
}

// ingress returns the addresses in the Service's status.
func ingress(s corev1.Service) string {
	var addrs []string
	for _, i := range s.Status.LoadBalancer.Ingress {
		addrs = append(addrs, i.IP+i.Hostname)
	}
	return dash(strings.Join(addrs, " "))
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
