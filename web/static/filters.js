// A choice among a page's filters shows it at once, without a button.

document.querySelectorAll("form.filters select").forEach((choice) => {
  choice.addEventListener("change", () => choice.form.submit());
});
