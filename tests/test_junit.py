"""The count of passed and failed tests, which decides whether `make test` succeeds."""

from junit import Totals

_REPORT = """<testsuites><testsuite>
  <testcase name="passes"/>
  <testcase name="fails"><failure message="no"/></testcase>
  <testcase name="breaks"><error message="no"/></testcase>
  <testcase name="is left out"><skipped/></testcase>
</testsuite></testsuites>"""


def test_a_report_is_counted(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(_REPORT)
    assert Totals.of(report, exit_code=1) == Totals(passed=1, failed=2)


def test_a_run_that_broke_without_a_report_counts_as_a_failure(tmp_path):
    assert Totals.of(tmp_path / "missing.xml", exit_code=2) == Totals(failed=1)


def test_totals_add_up():
    assert str(Totals(2, 1) + Totals(3)) == "5 passed, 1 failed"
